import { enginesUnderTest } from './engine-under-test.fixture.ts'
import { limits } from './limits.fixture.ts'

/** Opens a sandbox, runs a program in it that does not end, and prints the sandbox's id; for a test that kills this process. */
const [, , name = '', use = '', socket = '', root = ''] = process.argv
const engine = enginesUnderTest.find((one) => one.name === name)
if (engine === undefined) throw new Error(`There is no engine ${name}.`)
const signal = new AbortController().signal
const spec = { limits: { ...limits, wallMs: 600_000 }, network: 'none' } as const
const runtime = engine.runtime(socket, root)
const sandbox = await runtime.open(use === 'session' ? { ...spec, language: 'python', session: true } : spec, signal)
const onOutput = (): void => void process.stdout.write(`${sandbox.id}\n`)
const python = 'import time\nprint("runs", flush=True)\ntime.sleep(600)'
const program =
  use === 'session'
    ? ({ kind: 'code', language: 'python', code: python } as const)
    : ({ kind: 'script', script: 'echo runs; sleep 600 & sleep 600' } as const)
await sandbox.run({ program, onOutput }, signal)
