"""The bot as Prometheus and an orchestrator see it: over HTTP, at its own address."""

from __future__ import annotations

import aiohttp
from prometheus_client.parser import text_string_to_metric_families


class Scraped:
    """One page of metrics.

    >>> Scraped('# TYPE x counter\\nx_total{a="1",b="2"} 3').value("x_total", a="1")
    3
    """

    def __init__(self, page: str) -> None:
        self.samples = [sample for family in text_string_to_metric_families(page) for sample in family.samples]

    def value(self, name: str, **labels: str) -> float:
        """The sum over all samples with these labels; 0 if there are none."""
        return sum(s.value for s in self.samples if s.name == name and labels.items() <= s.labels.items())

    def has(self, name: str) -> bool:
        return any(sample.name == name for sample in self.samples)

    def labels(self, name: str, label: str) -> set[str]:
        return {sample.labels[label] for sample in self.samples if sample.name == name}


async def scrape(url: str) -> Scraped:
    status, text = await get(f"{url}/metrics")
    assert status == 200
    return Scraped(text)


async def get(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.text()
