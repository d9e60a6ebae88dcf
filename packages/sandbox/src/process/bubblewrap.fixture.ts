import { type SpawnSyncReturns, spawnSync } from 'node:child_process'
import { closeSync, existsSync, openSync } from 'node:fs'

export const isRoot = process.getuid?.() === 0

/** For tests that start real sandboxes. */
export const real = { skip: existsSync('/usr/bin/bwrap') ? false : 'bubblewrap is not installed here' }

/** For tests that need real control groups or their own uids. */
export const asRoot = { skip: isRoot ? false : 'only root has these' }

/** An unprivileged uid without an account. */
export const outsider = 0x6fff_fff0

export interface Started {
  readonly argv: readonly string[]
  /** Becomes descriptor 9. */
  readonly seccompFile?: string | undefined
  readonly uid?: number | undefined
}

/** Runs a program like the launcher, without control groups: under another uid, with an empty environment. */
export function start({ argv: [program = '', ...args], seccompFile, uid }: Started): SpawnSyncReturns<string> {
  const filter = seccompFile === undefined ? undefined : openSync(seccompFile, 'r')
  try {
    return spawnSync(program, args, {
      ...(isRoot ? { uid: uid ?? outsider, gid: uid ?? outsider } : {}),
      stdio: ['ignore', 'pipe', 'pipe', ...Array<'ignore'>(6).fill('ignore'), filter ?? 'ignore'],
      env: {},
      cwd: '/',
      encoding: 'utf8',
      timeout: 20_000,
      killSignal: 'SIGKILL',
    })
  } finally {
    if (filter !== undefined) closeSync(filter)
  }
}
