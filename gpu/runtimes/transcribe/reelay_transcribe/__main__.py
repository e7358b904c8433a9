from reelay_transcribe import main

main()
