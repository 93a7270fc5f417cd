// Lets a test drive the official chat clients: a JSON command on each line of stdin, its answer on a line of stdout.
import { existsSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';
import path from 'node:path';

const modules = process.env.NODE_PATH.split(path.delimiter).find(folder => existsSync(path.join(folder, 'ai')));
const load = name => import(pathToFileURL(path.join(modules, name)).href);

// Node's own words for a broken connection are none of those by which the SDK knows one. Of each stream, it is noted
// whether it has ended by itself, and how many terminal events it had.
const END = /"type":\s*"(finish|error|abort|RUN_FINISHED|RUN_ERROR)"/g;
const asInBrowsers = streams => async (url, init) => {
  let response;
  try {
    response = await fetch(url, init);
  } catch (error) {
    throw error.name === 'AbortError' ? error : new TypeError('network error: fetch failed');
  }
  if (response.body == null) return response;
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  const stream = { status: response.status, isWhole: false, ends: 0 };
  let tail = '';
  streams.push(stream);
  const body = new ReadableStream({
    async pull(controller) {
      try {
        const { done, value } = await reader.read();
        if (done) {
          stream.isWhole = true;
          controller.close();
        } else {
          tail += decoder.decode(value, { stream: true });
          const lines = tail.split('\n');
          tail = lines.pop();
          stream.ends += lines.join('\n').match(END)?.length ?? 0;
          controller.enqueue(value);
        }
      } catch (error) {
        controller.error(error.name === 'AbortError' ? error : new TypeError('network error'));
      }
    },
    cancel: reason => reader.cancel(reason),
  });
  return new Response(body, { status: response.status, headers: response.headers });
};

class State {
  constructor(messages) {
    this.messages = messages;
    this.status = 'ready';
    this.error = undefined;
    this.pushMessage = message => (this.messages = [...this.messages, message]);
    this.popMessage = () => (this.messages = this.messages.slice(0, -1));
    this.replaceMessage = (index, message) => {
      this.messages = this.messages.map((each, at) => (at === index ? structuredClone(message) : each));
    };
    this.snapshot = value => structuredClone(value);
  }
}

async function aiSdk({ package: name, api, id, messages, automatic, headers }) {
  const folder = path.join(modules, name, 'dist');
  const sdk = await load(path.join(name, 'dist', existsSync(path.join(folder, 'index.mjs')) ? 'index.mjs' : 'index.js'));
  const told = { data: [], finishes: [], requests: 0, errors: [], streams: [] };
  const fetched = asInBrowsers(told.streams);
  const counted = (url, init) => ((told.requests += 1), fetched(url, init));
  class Chat extends sdk.AbstractChat {}
  const state = new State(messages ?? []);
  const chat = new Chat({
    id,
    state,
    transport: new sdk.DefaultChatTransport({ api, headers, fetch: counted }),
    onData: part => told.data.push(part),
    onError: error => told.errors.push(error.message),
    onFinish: ({ isAbort, isDisconnect, isError, finishReason }) =>
      told.finishes.push({ isAbort, isDisconnect, isError, finishReason }),
    sendAutomaticallyWhen: automatic ? sdk.lastAssistantMessageIsCompleteWithApprovalResponses : undefined,
  });
  // Goes away after so many milliseconds, if there are any given.
  const leaving = async (request, ms) => {
    const timer = ms && setTimeout(() => chat.stop(), ms);
    await request;
    clearTimeout(timer);
  };
  return {
    send: ({ text, messageId, ms }) => leaving(chat.sendMessage({ text, messageId }), ms),
    regenerate: () => chat.regenerate(),
    approve: ({ id, approved, reason, body }) =>
      chat.addToolApprovalResponse({ id, approved, reason, options: body && { body } }),
    post: ({ body }) => chat.sendMessage(undefined, body && { body }),
    resume: ({ ms }) => leaving(chat.resumeStream(), ms),
    stop: () => chat.stop(),
    state: () => ({ messages: chat.messages, status: chat.status, error: chat.error?.message, ...told }),
  };
}

async function agUi({ url, threadId, messages, headers }) {
  const { HttpAgent } = await load('@ag-ui/client/dist/index.mjs');
  const told = { events: [], errors: [], requests: 0, streams: [] };
  const fetched = asInBrowsers(told.streams);
  const counted = (url, init) => ((told.requests += 1), fetched(url, init));
  const agent = new HttpAgent({ url, threadId, initialMessages: messages ?? [], headers, fetch: counted });
  const subscriber = {
    onEvent: ({ event }) => void told.events.push(event),
    onRunFailed: ({ error }) => void told.errors.push(error.message),
  };
  return {
    say: ({ text, id }) => void agent.addMessage({ id, role: 'user', content: text }),
    run: async ({ ms, ...options }) => {
      told.events = [];
      const timer = ms && setTimeout(() => agent.abortRun(), ms);
      try {
        await agent.runAgent(options, subscriber);
      } catch (error) {
        told.errors.push(error.message);
      }
      clearTimeout(timer);
    },
    abort: () => agent.abortRun(),
    state: () => ({
      messages: agent.messages,
      state: agent.state,
      interrupts: agent.pendingInterrupts,
      ...told,
    }),
  };
}

// The clients leave some promises alone when a connection breaks: a page goes on all the same.
process.on('unhandledRejection', error => console.error(`unhandled: ${error}`));
process.on('uncaughtException', error => console.error(`uncaught: ${error}`));

const clients = {};
const makers = { 'ai-sdk': aiSdk, 'ag-ui': agUi };
const answer = value => process.stdout.write(JSON.stringify(value) + '\n');
for (const name of ['log', 'warn', 'error', 'info', 'debug']) console[name] = (...words) => process.stderr.write(`${words.join(' ')}\n`);

async function execute({ make, client, op, number, ...rest }) {
  try {
    if (make) clients[client] = await makers[make](rest);
    else await clients[client][op](rest);
    answer({ number, ...clients[client].state() });
  } catch (error) {
    answer({ number, failed: String(error?.stack ?? error) });
  }
}

for await (const line of createInterface({ input: process.stdin })) execute(JSON.parse(line));
process.exit(0);
