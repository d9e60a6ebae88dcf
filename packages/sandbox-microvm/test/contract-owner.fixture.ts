import { createFirecrackerRuntime } from '@gantry/sandbox-microvm'

/** An owner that is killed while its program runs; it prints when that program does. */
const [, , program = '', jailer = '', store = '', root = ''] = process.argv
const runtime = createFirecrackerRuntime({ program, jailer, store, root, image: 'standard' })
const signal = AbortSignal.timeout(100_000)
const limits = {
  wallMs: 90_000,
  cpuMs: 90_000,
  memoryBytes: 128 * 2 ** 20,
  pids: 16,
  diskBytes: 2 ** 20,
  stdoutBytes: 4_096,
  stderrBytes: 4_096,
}
const sandbox = await runtime.open({ limits, network: 'none' }, signal)
const onOutput = (): void => void process.stdout.write('runs\n')
await sandbox.run({ program: { kind: 'script', script: 'echo runs; sleep 600' }, onOutput }, signal)
