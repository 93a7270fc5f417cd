// A worker in TypeScript: node run.cjs worker.ts ADDRESS QUEUE BUNDLE. Says "ready" when it polls.
import { DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker';
import * as activities from './activities';

async function main(): Promise<void> {
  const [address, taskQueue, codePath] = process.argv.slice(3);
  Runtime.install({ logger: new DefaultLogger('ERROR') });
  const connection = await NativeConnection.connect({ address });
  const workflowBundle = { codePath };
  const stickyQueueScheduleToStartTimeout = '1s';
  const options = { connection, taskQueue, workflowBundle, activities, stickyQueueScheduleToStartTimeout };
  const worker = await Worker.create(options);
  const running = worker.run();
  console.log('ready');
  await running;
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
