// What a company already has: workflows that know nothing of perdure, and one that runs an agent as its child.
import { ApplicationFailure, continueAsNew, executeChild, proxyActivities, sleep, workflowInfo } from '@temporalio/workflow';
import type * as activities from './activities';

const { greet } = proxyActivities<typeof activities>({ startToCloseTimeout: '20s', heartbeatTimeout: '1s' });

export async function welcome(input: { name: string }): Promise<{ greeting: string; id: string }> {
  return { greeting: await greet(input), id: workflowInfo().workflowId };
}

export async function deny(input: { item: string }): Promise<never> {
  throw ApplicationFailure.nonRetryable(`no ${input.item} for you`, 'Denied');
}

export async function patient(input: { links: number }): Promise<string> {
  if (input.links > 0) await continueAsNew<typeof patient>({ links: input.links - 1 });
  await sleep('1 hour');
  return 'slept';
}

export async function editor(input: unknown, taskQueue: string): Promise<unknown> {
  const result = await executeChild('perdure.AgentRun', { taskQueue, args: [input] });
  return { result, size: JSON.stringify(result).length };
}
