"""Renders a graph with a picture of one's own."""

from comfy_sdk import Comfy

client = Comfy()  # reads COMFY_BASE_URL and COMFY_API_KEY
workflow = client.workflows.from_file("workflow_api.json")
workflow.set_input("0", "image", client.assets.from_file("photo.png"))
job = client.run(workflow)
for output in job.get_outputs("3"):
    print(output.to_file(output.name))
