"""Makes many videos, some at a time, and counts those that fail: soak.py COUNT MODEL."""

import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from openai import OpenAI

AT_ONCE = 24

count, model = int(sys.argv[1]), sys.argv[2]
# A busy server answers 503 with Retry-After, which the package follows by itself: a failure is what it gives up.
client = OpenAI(base_url=os.environ["REELAY_ENDPOINT"] + "/v1", api_key=os.environ["REELAY_API_KEY"], max_retries=6)


def make(number):
    begun = time.monotonic()
    try:
        video = client.videos.create_and_poll(model=model, prompt=f"A paper boat, number {number}")
        if video.status != "completed":
            return None, f"{video.id} is {video.status}: {video.error}"
        film = client.videos.download_content(video.id).read()
        if film[4:8] != b"ftyp":
            return None, f"{video.id} is no MP4: {film[:20]}"
    except Exception as failure:  # each one is what a client sees
        return None, repr(failure)
    return time.monotonic() - begun, None


with ThreadPoolExecutor(AT_ONCE) as pool:
    made = list(pool.map(make, range(count)))
times = sorted(took for took, _ in made if took is not None)
json.dump({"completed": len(times), "failures": [why for _, why in made if why], "p50": times[len(times) // 2], "most": times[-1]}, sys.stdout)
