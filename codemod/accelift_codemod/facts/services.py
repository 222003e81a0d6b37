"""Stores and services that are not files, which every process would write to: databases, queues, clouds, messages."""

from __future__ import annotations

import ast

from accelift_codemod.facts.resolve import Resolver

_MOST_STEPS = 4
_S3 = "upload_file upload_fileobj put_object put_item copy_object delete_object send_message publish"
# What connects to them, and the methods of what that gives, or of its parts, which write.
_WRITES = {
    **dict.fromkeys(
        ("redis.Redis", "redis.StrictRedis", "redis.from_url", "redis.Redis.from_url"),
        "set setex setnx mset append incr incrby decr delete hset hmset lpush rpush sadd zadd xadd publish",
    ),
    "pymongo.MongoClient": "insert_one insert_many update_one update_many replace_one find_one_and_update "
    "delete_one delete_many bulk_write drop",
    **dict.fromkeys(("boto3.client", "boto3.resource"), _S3),
    "google.cloud.storage.Client": "upload_from_filename upload_from_string upload_from_file",
    "kafka.KafkaProducer": "send",
    **dict.fromkeys(("smtplib.SMTP", "smtplib.SMTP_SSL"), "sendmail send_message"),
    "telegram.Bot": "send_message send_photo send_document",
    "slack_sdk.WebClient": "chat_postMessage files_upload files_upload_v2",
    "huggingface_hub.HfApi": "upload_file upload_folder create_repo create_commit delete_file",
    **dict.fromkeys(("openpyxl.Workbook", "openpyxl.load_workbook", "xlwt.Workbook", "docx.Document"), "save"),
    "annoy.AnnoyIndex": "save",
}
# What sends something at once.
_SENDS = frozenset(
    "requests.post requests.put requests.patch requests.delete httpx.post httpx.put huggingface_hub.upload_file "
    "huggingface_hub.upload_folder huggingface_hub.create_repo".split()
)
_METHODS = frozenset(name for names in _WRITES.values() for name in names.split())


def writes(resolver: Resolver, call: ast.Call) -> bool:
    """Whether a call writes to a store or a service that all processes share."""
    if resolver.qualified(call.func) in _SENDS:
        return True
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in _METHODS:
        return False
    made = _connection(resolver, call.func.value)
    return made is not None and call.func.attr in _WRITES[made].split()


def _connection(resolver: Resolver, node: ast.expr, steps: int = 0) -> str | None:
    """What has connected to the service that an expression is a part of."""
    while True:
        if isinstance(node, ast.Call):
            qualified = resolver.qualified(node.func)
            if qualified in _WRITES:
                return qualified
            node = node.func
        elif isinstance(node, ast.Attribute):
            bound = resolver.index.attribute_bindings.get(node.attr, ()) if steps < _MOST_STEPS else ()
            texts = (b.value for b in bound if b.value is not None and ast.unparse(b.node) == ast.unparse(node))
            found = next((c for v in texts if (c := _connection(resolver, v, steps + 1)) is not None), None)
            if found is not None:
                return found
            node = node.value
        elif isinstance(node, ast.Subscript):
            node = node.value
        else:
            break
    made = [b.value for b in resolver.bindings(node)] if isinstance(node, ast.Name) and steps < _MOST_STEPS else []
    known = [_connection(resolver, value, steps + 1) for value in made if value is not None]
    return known[0] if len(known) == len(made) == 1 else None
