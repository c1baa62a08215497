"""What ADK's own server looks for."""

from . import agent as agent
