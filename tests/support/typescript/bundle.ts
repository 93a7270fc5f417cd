// Writes the workflows as one file, which several workers then share.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { bundleWorkflowCode, DefaultLogger, Runtime } from '@temporalio/worker';

async function main(): Promise<void> {
  Runtime.install({ logger: new DefaultLogger('ERROR') });
  const { code } = await bundleWorkflowCode({ workflowsPath: join(__dirname, 'workflows.ts') });
  writeFileSync(process.argv[3], code);
}

main().then(() => process.exit(0));
