import { createDockerRuntime } from '@gantry/sandbox-containers'
import { limits } from './limits.fixture.ts'

/** Prints the id of a sandbox in which a program begins to spin; for a test that stops this process. */
const [, , socket = '', root = ''] = process.argv
const { signal } = new AbortController()
const runtime = createDockerRuntime({ socket, root })
const sandbox = await runtime.open({ limits: { ...limits, cpuMs: 2_000 }, network: 'none' }, signal)
const onOutput = (): void => void process.stdout.write(`${sandbox.id}\n`)
await sandbox.run({ program: { kind: 'script', script: 'echo runs; while :; do :; done' }, onOutput }, signal)
