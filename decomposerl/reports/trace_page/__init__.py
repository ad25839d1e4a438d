"""The trace page: claims with every trace of them, as one offline file or live."""
