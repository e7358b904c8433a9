"""An imitation of the client of SkyPilot 0.14, whose state is the file sky.json. Each function takes what the real one takes: a test
compares the two. Of the name of a cluster depends what becomes of a launch."""
import contextlib
import enum
import fcntl
import json
import os
import time
import types
import uuid


class ResourcesUnavailableError(Exception):
    pass


class NoCloudAccessError(Exception):
    pass


class ClusterDoesNotExist(ValueError):
    pass


class ClusterStatus(enum.Enum):
    INIT = "INIT"
    UP = "UP"
    STOPPED = "STOPPED"
    AUTOSTOPPING = "AUTOSTOPPING"
    PENDING = "PENDING"
    UNHEARD_OF = "UNHEARD_OF"  # of a later version


FAILURES = {"full": ResourcesUnavailableError("Failed to acquire resources in all zones in us-east-1."),
            "capped": ResourcesUnavailableError("Quota exceeded for G instances."), "denied": NoCloudAccessError("Run: sky check"),
            "odd": ResourcesUnavailableError("Catalog does not contain any instances satisfying the request."),
            "0000fa11": RuntimeError("Failed to terminate the cluster: the cloud says that it is busy."),
            "0000901e": ClusterDoesNotExist("Cluster 'spot-0000901e' does not exist.")}


@contextlib.contextmanager
def state():
    with open("sky.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kept = {"requests": {}, "clusters": {}, "launches": []}
        if os.path.exists("sky.json"):
            with open("sky.json") as file:
                kept = json.load(file)
        yield kept
        with open("sky.json.new", "w") as file:
            json.dump(kept, file)
        os.rename("sky.json.new", "sky.json")


class Resources:
    def __init__(self, infra=None, accelerators=None, disk_size=None, use_spot=None):
        self.told = {"infra": infra, "accelerators": accelerators, "disk_size": disk_size, "use_spot": use_spot}


class Task:
    def __init__(self, name=None, *, run=None, secrets=None):
        self.run, self.secrets = run, secrets

    def set_resources(self, resources):
        self.resources = resources.told


def ask(kept, name, cluster):
    id = str(uuid.uuid4())
    kept["requests"][id] = {"request_id": id, "name": name, "cluster_name": cluster, "status": "RUNNING", "looks": 0}
    return id


def launch(task, cluster_name=None):
    if cluster_name.endswith("bad0"):  # it does not answer
        open("hanging", "w").close()
        time.sleep(1000)
    print("Running on cluster: " + cluster_name)
    with state() as kept:
        kept["launches"].append({"run": task.run, "secrets": task.secrets, "resources": task.resources, "name": cluster_name})
        id = ask(kept, "sky.launch", cluster_name)
    if cluster_name.endswith("105e"):
        raise ConnectionError("Connection reset by peer")
    return id


def down(cluster_name):
    with state() as kept:
        return ask(kept, "sky.down", cluster_name)


def api_status(request_ids=None, *, fields=None):
    if not fields or set(fields) - {"request_id", "name", "status", "cluster_name"}:
        raise AssertionError("the other fields have secrets")
    if request_ids and os.path.exists("flaky"):
        os.remove("flaky")
        raise ConnectionError("Connection reset by peer")
    with state() as kept:
        for r in kept["requests"].values():
            r["looks"] += 1
            if r["status"] != "RUNNING" or r["looks"] < 2 or r["cluster_name"].endswith("510e"):  # the last is slow
                continue
            end = r["cluster_name"].rpartition("-")[2]
            if end in FAILURES and (r["name"] == "sky.down") == (end in ("0000fa11", "0000901e")):
                r["status"] = "FAILED"
                continue
            if r["name"] == "sky.down":
                kept["clusters"].pop(r["cluster_name"], None)
            else:
                kept["clusters"][r["cluster_name"]] = {"status": "UP", "launched_at": int(time.time())}
            r["status"] = "SUCCEEDED"
        return [types.SimpleNamespace(**r) for r in kept["requests"].values()
                if (r["request_id"] in request_ids if request_ids else r["status"] == "RUNNING")]


def status(*, all_users=False):
    if os.path.exists("down"):
        raise ConnectionError("Could not connect to SkyPilot API server")
    with state() as kept:
        return ask(kept, "sky.status", None) if all_users else ""


def get(request_id):
    with state() as kept:
        r = kept["requests"].pop(request_id)
        if r["status"] == "FAILED":
            raise FAILURES[r["cluster_name"].rpartition("-")[2]]
        if r["name"] == "sky.status":
            return [{"name": n, "status": ClusterStatus[c["status"]], "launched_at": c["launched_at"]} for n, c in kept["clusters"].items()]
    return None
