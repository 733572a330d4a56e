"""What those who write parts run: lists what is registered, checks a part, writes a package."""
