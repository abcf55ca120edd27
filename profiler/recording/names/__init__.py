"""Keep the names of a recording: functions, lines and files of its addresses."""
