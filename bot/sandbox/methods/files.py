"""Files: get an upload address, upload, share."""

from __future__ import annotations

from bot.sandbox.methods.call import Call, Method, Methods
from bot.sandbox.methods.chat import thread_of
from bot.sandbox.refusals import ApiRefusal
from bot.sandbox.workspace.records import Channel, StoredFile
from runtime.jsontypes import JsonObject, as_text, objects


def get_upload_url(call: Call) -> JsonObject:
    length = call.args.number("length", 0)
    if length < 1:
        raise ApiRefusal("invalid_arguments", messages=["[ERROR] length must be more than 0"])
    file_id = call.workspace.directory.new_id("F")
    name = call.args.required("filename")
    call.workspace.files[file_id] = StoredFile(file_id, call.install.team_id, name, length, call.bot)
    return {"ok": True, "upload_url": f"{call.base}/upload/v1/{file_id}", "file_id": file_id}


def complete(call: Call) -> JsonObject:
    named = objects(call.args.json("files"))
    if not named:
        raise ApiRefusal("invalid_arguments", messages=["[ERROR] missing required field: files"])
    files = [_uploaded_file(call, as_text(each.get("id"))) for each in named]
    for file, each in zip(files, named, strict=True):
        file.title = as_text(each.get("title"))
    for channel in _channels(call):
        _share(call, channel, files)
    return {"ok": True, "files": [file.to_json(call.base, call.now) for file in files]}


def _uploaded_file(call: Call, file_id: str) -> StoredFile:
    file = call.workspace.files.get(file_id)
    if file is None or file.team_id not in call.teams or file.content is None:
        raise ApiRefusal("file_not_found")
    return file


def _channels(call: Call) -> list[Channel]:
    names = [each for each in call.args.text("channels").split(",") if each]
    if "channel_id" in call.args:
        names.append(call.args.text("channel_id"))
    found: list[Channel] = []
    for name in names:
        channel = call.workspace.directory.channels.get(name)
        if channel is None or not channel.teams & call.teams:
            raise ApiRefusal("channel_not_found")
        if call.bot not in channel.members:
            raise ApiRefusal("not_in_channel" if channel.kind == "public" else "channel_not_found")
        found.append(channel)
    return found


def _share(call: Call, channel: Channel, files: list[StoredFile]) -> None:
    for file in files:
        file.channels.add(channel.id)
    call.workspace.messages.post(
        channel,
        call.bot,
        thread_ts=thread_of(call, channel),
        by=call.install,
        text=call.args.text("initial_comment"),
        subtype="file_share",
        files=[file.to_json(call.base, call.now) for file in files],
    )


def info(call: Call) -> JsonObject:
    file = _uploaded_file(call, call.args.required("file"))
    return {"ok": True, "file": file.to_json(call.base, call.now)}


METHODS: Methods = {
    "files.getUploadURLExternal": Method(get_upload_url, "files:write", per_minute=100),
    "files.completeUploadExternal": Method(complete, "files:write", per_minute=100),
    "files.info": Method(info, "files:read", per_minute=100),
}
