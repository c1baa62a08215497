// A real @google/adk API server with the tools of tests/support/foreign/tools.py.
import {BaseLlm, FunctionTool, LlmAgent, LogLevel, MCPToolset, ParallelAgent} from '@google/adk';
import {AdkApiServer} from '@google/adk-devtools';
import {spawn} from 'node:child_process';
import {appendFileSync} from 'node:fs';
import {readFile} from 'node:fs/promises';
import {createInterface} from 'node:readline';
import {z} from 'zod';

const log = (tool, what) => appendFileSync(process.env.TOOL_LOG, JSON.stringify({tool, ...what}) + '\n');

// The model of all these servers, beside this one: a line to the process of MODEL, and a line back.
const [program, ...words] = JSON.parse(process.env.MODEL);
const beside = spawn(program, words, {stdio: ['pipe', 'pipe', 'inherit']});
const lines = createInterface({input: beside.stdout})[Symbol.asyncIterator]();
let last = Promise.resolve();

function reply(contents, agent) {
  return last = last.then(async () => {
    beside.stdin.write(JSON.stringify({agent, contents}) + '\n');
    const parts = JSON.parse((await lines.next()).value);
    for (const {functionCall: call} of parts) { // this ADK names that argument otherwise
      if (call?.name === 'transfer_to_agent') call.args = {agentName: call.args.agent_name};
    }
    return parts;
  });
}

const FORK = ['east', 'west'];

class Obliging extends BaseLlm {
  constructor(agent) {
    super({model: 'obliging'});
    this.agent = agent;
  }
  async *generateContentAsync(request) {
    yield {content: {role: 'model', parts: await reply(request.contents, this.agent)}};
  }
  async connect() {
    throw new Error('no live mode here');
  }
}

const tool = (name, parameters, execute, requireConfirmation) =>
  new FunctionTool({name, description: name, parameters: z.object(parameters), execute, requireConfirmation});

const tools = () => [
  tool('reimburse', {amount: z.number()}, ({amount}) => {
    log('reimburse', {amount});
    return {paid: amount};
  }, ({amount}) => amount > 1000),
  tool('deploy', {service: z.string()}, ({service}) => {
    log('deploy', {service});
    return {deployed: service};
  }, true),
  tool('linger', {word: z.string()}, async ({word}) => {
    log('linger', {begun: word});
    await readFile(`${process.env.TOOL_FIFO}-${word}`);
    log('linger', {ended: word});
    return {word};
  }, true),
  tool('break_down', {word: z.string()}, ({word}) => {
    log('break_down', {word});
    throw new Error(`no ${word} today`);
  }, true),
  tool('read_calendar', {day: z.string()}, (_, context) => { // needs a sign-in each time
    const authScheme = {type: 'apiKey', name: 'X-Api-Key', in: 'header'};
    context.requestCredential({authScheme, credentialKey: 'calendar'});
    return {pending: true};
  }, true),
  tool('lookup', {topic: z.string()}, ({topic}) => ({topic})),
  tool('request_time_off', {days: z.number()}, ({days}, context) => {
    const confirmation = context.toolConfirmation;
    if (!confirmation) {
      context.requestConfirmation({hint: 'How many days?', payload: {approved_days: 0}});
      return {status: 'Manager approval is required.'};
    }
    if (!confirmation.confirmed) return {error: 'denied'};
    const approved = Math.min(confirmation.payload.approved_days, days);
    log('request_time_off', {days: approved});
    return {approved_days: approved};
  }),
];

// An MCP tool has no gate here, and an answer to what a callback asks for it is refused: a tool of one's own stands before it.
class GatedToolset extends MCPToolset {
  async getTools(context) {
    this.gated ??= (await super.getTools(context)).map((there) => new FunctionTool({
      name: there.name,
      description: there.description,
      parameters: there._getDeclaration().parameters,
      execute: (args, toolContext) => there.runAsync({args, toolContext}),
      requireConfirmation: true,
    }));
    return this.gated; // to ask its server again would start another, for each word of the model
  }
}

function mcp() {
  const [command, ...args] = JSON.parse(process.env.MCP);
  return new GatedToolset({type: 'StdioConnectionParams', serverParams: {command, args, env: process.env}});
}

function agent(name) {
  const subAgents = [];
  if (name === 'fork') {
    return new ParallelAgent({
      name, subAgents: FORK.map((branch) => new LlmAgent({name: branch, model: new Obliging(branch), tools: tools()})),
    });
  }
  if (name === 'front') {
    const model = new Obliging('payer');
    subAgents.push(new LlmAgent({name: 'payer', description: 'Pays people back.', model, tools: tools()}));
  }
  const own = name === 'front' ? [] : name === 'filer' ? [...tools(), mcp()] : tools();
  return new LlmAgent({name, model: new Obliging(name), tools: own, subAgents});
}

const agentLoader = {
  listAgents: async () => ['clerk', 'filer', 'front', 'fork'],
  getAgentFile: async (name) => ({load: async () => agent(name), dispose: async () => {}, [Symbol.asyncDispose]: async () => {}}),
  disposeAll: async () => {},
};
const say = console.log;
console.log = () => {};
const server = new AdkApiServer({
  agentLoader, host: '127.0.0.1', port: Number(process.env.PORT ?? 0), logLevel: LogLevel.ERROR,
});
await server.start();
say(new URL(server.url).port);
