import { spawnSync } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { join } from 'node:path'
import type { Json } from '@gantry/contract'
import type { SandboxJob } from '@gantry/core/internal/runtimes/runtime'
import { hostPython, hostScript } from './programs.ts'

/** A worker with something about it that a runtime in this process cannot have. */
export interface Stage {
  /** Files or folders that the worker was started with, by the number of the descriptor. */
  readonly descriptors?: { readonly [number: number]: string }
  /** Python that runs before, in the process that becomes the worker. */
  readonly before?: string
  /** Which runtime the worker opens; absent for a program with nothing between it and the stage. */
  readonly kind?: string
}

const fixture = join(import.meta.dirname, 'staged.fixture.ts')

/** Runs Python in a sandbox of a worker of its own, or bare in the worker's place; gives what it returned. */
export function onStage(job: SandboxJob, { descriptors = {}, before = 'pass', kind }: Stage): Json {
  if (job.program.kind !== 'code') throw new Error('only code goes on stage')
  const { code } = job.program
  const command = kind === undefined ? [hostPython, '-c', hostScript(code)] : [process.execPath, fixture, kind]
  const opened = Object.entries(descriptors).map(([number, path]) => [Number(number), openSync(path, 'r')] as const)
  const stdio: (number | 'pipe' | 'ignore')[] = ['ignore', 'pipe', 'pipe']
  for (const [number, fd] of opened) stdio[number] = fd
  try {
    const started = spawnSync(
      hostPython,
      ['-c', `import os, sys\n${before}\nos.execv(sys.argv[1], sys.argv[1:])`, ...command],
      {
        stdio: Array.from(stdio, (one) => one ?? 'ignore'),
        env: { ...process.env, GANTRY_STAGED: code },
        encoding: 'utf8',
        timeout: 30_000,
        killSignal: 'SIGKILL',
      },
    )
    if (started.status !== 0) throw new Error(`The worker failed: ${started.stderr}`)
    return JSON.parse(started.stdout.trim().split('\n').at(-1) ?? '')
  } finally {
    for (const [, fd] of opened) closeSync(fd)
  }
}
