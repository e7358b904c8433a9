import os
from openai import OpenAI

client = OpenAI(base_url=os.environ["REELAY_ENDPOINT"] + "/v1", api_key=os.environ["REELAY_API_KEY"])
video = client.videos.create_and_poll(model="sora-2", prompt="A paper boat on a calm sea", seconds="4")
client.videos.download_content(video.id).write_to_file("boat.mp4")
