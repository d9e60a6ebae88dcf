import { createProxmoxRuntime } from '@gantry/sandbox-proxmox'

/** Opens two sandboxes, runs a program in one of them, and waits to be killed. */
const runtime = createProxmoxRuntime(JSON.parse(process.argv[2] ?? ''))
const { signal } = new AbortController()
const limits = {
  wallMs: 600_000,
  cpuMs: 60_000,
  memoryBytes: 33_554_432,
  pids: 16,
  diskBytes: 1_048_576,
  stdoutBytes: 65_536,
  stderrBytes: 65_536,
}
const spec = { limits, network: 'none' } as const
const [busy] = await Promise.all([runtime.open(spec, signal), runtime.open(spec, signal)])
const program = { kind: 'script', script: 'echo runs; sleep 600 & sleep 600' } as const
await busy.run({ program, onOutput: () => console.log('running') }, signal)
