"""What schemathesis must know of this API beside its OpenAPI document.

The environment has the ids of things that exist, by operation (REELAY_IDS).
"""

import json
import os
import re
from itertools import count

import schemathesis
from schemathesis.checks import CheckContext
from schemathesis.core.failures import Failure
from schemathesis.core.transport import Response
from schemathesis.generation.case import Case

IDS = json.loads(os.environ["REELAY_IDS"])
TURN = count()


@schemathesis.hook
def before_call(context, case: Case, kwargs):
    """Let every second valid request lead to something that exists, but not where schemathesis follows its own links."""
    # A long poll of a job that waits takes all of its seconds: let the run take minutes.
    if str((case.query or {}).get("wait", "")).isdigit():
        case.query["wait"] = min(int(case.query["wait"]), 1)
    ids = IDS.get(case.operation.definition.raw.get("operationId"))
    if ids and case.meta and case.meta.phase.name != "stateful" and case.meta.generation.mode.is_positive and next(TURN) % 2 == 0:
        case.path_parameters.update(ids[next(TURN) // 2 % len(ids)])


# What a schema cannot say. A request that it allows may be refused for one of these reasons: by a
# pattern for the field that the server names, and one for its sentence.
BEYOND_SCHEMAS = [
    # The models and their parameters are data of the server, listed by GET /api/v1/models.
    (r"model|model_version|jobs\..*\.model", r"There is no model of that name"),
    (r"job_type|jobs\..*\.job_type", r"No model has jobs of this type|The type of the model"),
    (r"(jobs\..*\.)?payload.*|params.*|duration_sec|resolution|aspect_ratio|fps|seed|style|reference_image_url",
     r"Unknown parameter|is required|is not valid|has no parameter|prompt|are the same parameter|This model|URL|names? (an|another)|holds? |number|takes (a|no)|must be|\{\{"),
    (r"provider", r"No model here is of this provider"),
    (r"model", r"makes no video|has several models|is of the provider"),
    (r"durationSeconds|resolution|aspectRatio|seed|negativePrompt|imageUrl", r"The model|leave out one|URL|names? (an|another)"),
    (r"jobs.*|output|workflow\..*", r"\{\{|node|workflow"),
    (r"prompt", r"prompt"),
    # A draft ends before the last step of the model, and only of a model with steps.
    (r"(jobs\..*\.)?draft.*", r".*"),
    # URLs must lead to public hosts, by other rules than their syntax.
    (r".*callback_url|webhookUrl", r"URL"),
    # Times are compared with now, and with each other.
    (r".*(execute_at|expires_at|finish_by|start_at|end_at|since|until)", r"ahead|past|after|within|must be a time"),
    # The days of a report are in order, not in the future, and not too many.
    (r"from|to", r"must be after from|covers at most|must be a day"),
    (r"month", r"has not begun|must be a month"),
    # Fields that exclude or require each other.
    (r".*require_region", r"demands a region"),
    (r".*(retry_policy|max_retries|at_most_once|retry).*", r"at_?[mM]ost_?[oO]nce"),
    (r".*reuse", r"leave out reuse"),
    (r"cron_expression|every_seconds", r"Give either|not valid|never|fires"),
    (r"timezone", r"IANA"),
    (r"payload|job_type|model|priority|callback_url|workflow.*", r"With workflow, leave out|Give either|cannot have"),
    (r"idempotency_key|idempotencyKey", r"differ"),
    (r".*idempotency_?[kK]ey", r"give one to the whole workflow|cannot have"),
    # Metadata is bounded as a whole, in bytes, and in depth.
    (r"metadata.*", r".*"),
    # A cursor is opaque: only one that the API gave is valid, for the same arguments.
    (r"after|cursor", r"The cursor (is|belongs to another list)"),
    # A search has a grammar of its own: docs/users/search.md.
    (r"search", r".*"),
    # The limit of a file's size depends on its type.
    (r"size_bytes", r"An image may have"),
]


class Rejected(Failure):
    """A request that the document allows was refused."""


@schemathesis.check
def positive_data(context: CheckContext, response: Response, case: Case):
    """A stricter positive_data_acceptance: a refusal must be one that no schema can express."""
    if not case.meta or not case.meta.generation.mode.is_positive or response.status_code not in (400, 405, 406, 413, 415, 422):
        return
    refused = response.json()
    for field, sentence in BEYOND_SCHEMAS:
        if re.fullmatch(field, refused.get("field", "")) and re.search(sentence, refused["detail"]):
            return
    raise Rejected(operation=case.operation.label, title="A valid request was refused", message=json.dumps(refused))
