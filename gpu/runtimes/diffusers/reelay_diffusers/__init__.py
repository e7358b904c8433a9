"""A Reelay runtime for the video pipelines of diffusers: python3 -m reelay_diffusers"""
