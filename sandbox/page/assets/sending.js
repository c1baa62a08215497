/** Sends what a person does to the server. An error comes back as a sentence for that person. */

export class Refused extends Error {}

export async function send(person, gesture, body = {}) {
  const response = await fetch(`/sandbox/do/${gesture}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ as: person, ...body }),
  }).catch(() => {
    throw new Refused("The sandbox does not answer. Is it still running?");
  });
  const answer = await response.json();
  if (!response.ok) throw new Refused(answer.error);
  return answer;
}
