import { createQemuRuntime } from '@gantry/sandbox-microvm'
import { limits } from './limits.fixture.ts'
import { qemuOptions } from './machines.fixture.ts'

/** An owner that is killed while its program runs; it prints when that program does. */
const runtime = createQemuRuntime({ ...qemuOptions(), ...rootOf(process.argv[2]) })
const signal = AbortSignal.timeout(300_000)
const sandbox = await runtime.open({ limits, network: 'none', session: true, language: 'python' }, signal)
const code = 'import time\nprint("runs", flush=True)\ntime.sleep(600)'
const onOutput = (): void => void process.stdout.write('runs\n')
await sandbox.run({ program: { kind: 'code', language: 'python', code }, onOutput }, signal)

function rootOf(root: string | undefined): { readonly root?: string } {
  return root === undefined ? {} : { root }
}
