"""Speech for tests, made by eSpeak NG's library, which the package espeakng-loader holds."""

from __future__ import annotations

import ctypes
import wave
from pathlib import Path

import espeakng_loader

SYNCHRONOUS = 2
UTF8 = 1


def speak(text: str, path: Path) -> None:
    """Writes a WAV file with the text, spoken."""
    library = ctypes.CDLL(espeakng_loader.get_library_path())
    rate = library.espeak_Initialize(SYNCHRONOUS, 0, str(espeakng_loader.get_data_path()).encode(), 0)
    assert rate > 0
    samples = bytearray()

    def keep(data: ctypes._Pointer[ctypes.c_short], count: int, _events: int | None) -> int:
        if data and count > 0:
            samples.extend(ctypes.string_at(data, 2 * count))
        return 0

    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)(keep)
    library.espeak_SetSynthCallback(callback)
    library.espeak_SetVoiceByName(b"en-us")
    spoken = text.encode()
    library.espeak_Synth(spoken, len(spoken) + 1, 0, 0, 0, UTF8, None, None)
    library.espeak_Synchronize()
    with wave.open(str(path), "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(rate)
        out.writeframes(bytes(samples))
