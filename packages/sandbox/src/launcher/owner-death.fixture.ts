import { startLauncher } from './launcher.ts'

/** Starts a sandbox from a plan, runs a program that does not end, and reports its start; a test then kills this process. */
const [binary = '', plan = '', script = ''] = process.argv.slice(2)
const signal = new AbortController().signal
const launched = await startLauncher(binary, JSON.parse(plan), { signal, startMs: 20_000 })
const steps = [{ argv: ['sh', '-c', script], env: { PATH: '/usr/bin:/bin' } }] as const
const onOutput = (): void => console.log(launched.pid)
await launched.run({ steps, stdoutBytes: 100, stderrBytes: 100 }, { wallMs: 60_000, signal, onOutput })
