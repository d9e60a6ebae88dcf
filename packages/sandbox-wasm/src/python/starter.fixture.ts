import { limits } from '../run.fixture.ts'
import { createWasmRuntime } from '../wasm.ts'
import { findConfinement, spawnPlainly } from './host-process.ts'

/** Starts an idle interpreter and one that loops in a single call, prints their process ids, and stays. */
const signal = AbortSignal.timeout(60_000)
const pids: (number | undefined)[] = []
const confinement = await findConfinement([], signal)
const runtime = createWasmRuntime({
  spawnHost(argv, env) {
    const host = spawnPlainly([...confinement, ...argv] as [string, ...string[]], env)
    pids.push(host.pid)
    return host
  },
})
const open = () => runtime.open({ language: 'python', limits, network: 'none' }, signal)
await open()
const busy = await open()
const code = 'print("on")\nprint(10 ** 10 ** 9)'
void busy.run(
  {
    program: { kind: 'code', language: 'python', code },
    onOutput: () => console.log(pids.slice(-2).join(' ')),
  },
  signal,
)
setInterval(() => undefined, 1_000)
