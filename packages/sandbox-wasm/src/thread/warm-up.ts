import { setImmediate as turn } from 'node:timers/promises'
import { createOutlet } from '../channel/outlet.ts'
import type { CodeJob, Scripts } from '../quickjs/scripts.ts'

/** After as many the code of interpreter and thread is compiled and runs in a hundredth of the time of the first. */
const rounds = 16

const program = { kind: 'code', language: 'javascript', code: 'return [6 * 7].map(String)' } as const
const limits = { wallMs: 1_000, cpuMs: 1_000, memoryBytes: 16_777_216, pids: 1, diskBytes: 65_536 }
const streams = { stdoutBytes: 1_024, stderrBytes: 1_024 }
const job: CodeJob = {
  program,
  limits: { ...limits, ...streams },
  env: {},
  stdin: new Uint8Array(0),
  files: new Map(),
  collect: undefined,
  deterministic: undefined,
  session: false,
}

/**
 * Runs a small program repeatedly, each time in a fresh context, so that the first program of a caller does not wait for
 * the compiler. Stops when a job waits. Its output is discarded.
 */
export async function warmUp(scripts: Scripts, now: () => number, isAsked: () => boolean): Promise<void> {
  for (let round = 0; round < rounds; round += 1) {
    await turn()
    if (isAsked()) return
    await scripts.run(
      job,
      createOutlet(streams, () => undefined, now),
    )
    await scripts.prepare()
  }
}
