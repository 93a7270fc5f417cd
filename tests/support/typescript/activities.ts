// What a company already has: activities that know nothing of perdure.
import { appendFileSync } from 'node:fs';
import { ApplicationFailure, CancelledFailure, Context } from '@temporalio/activity';

export async function greet(input: { name: string; times?: number }): Promise<string> {
  return `Hello ${input.name}!`.repeat(input.times ?? 1);
}

export async function ping(...given: unknown[]): Promise<{ arguments: number; key: string; attempt: number }> {
  const { activityId, attempt, workflowExecution } = Context.current().info;
  return { arguments: given.length, key: `${workflowExecution.workflowId}/${activityId}`, attempt };
}

export async function sell(input: { item: string }): Promise<never> {
  throw ApplicationFailure.nonRetryable(`no ${input.item} left`, 'OutOfStock', { item: input.item });
}

export async function flaky(input: { log: string }): Promise<number> {
  appendFileSync(input.log, 'tried\n');
  const { attempt } = Context.current().info;
  if (attempt < 3) throw new Error('not yet');
  return attempt;
}

export async function slow(input: { log: string; seconds: number }): Promise<string> {
  const context = Context.current();
  appendFileSync(input.log, 'started\n');
  const beating = setInterval(() => context.heartbeat(), 50);
  try {
    await context.sleep(input.seconds * 1000);
  } catch (error) {
    if (error instanceof CancelledFailure) appendFileSync(input.log, 'cancelled\n');
    throw error;
  } finally {
    clearInterval(beating);
  }
  appendFileSync(input.log, 'finished\n');
  return 'done';
}
