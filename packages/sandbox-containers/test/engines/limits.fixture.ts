import type { SandboxLimits } from '@gantry/contract'

/** Room for a small program. */
export const limits: SandboxLimits = {
  wallMs: 20_000,
  cpuMs: 20_000,
  memoryBytes: 128 * 2 ** 20,
  pids: 32,
  diskBytes: 8 * 2 ** 20,
  stdoutBytes: 65_536,
  stderrBytes: 65_536,
}
