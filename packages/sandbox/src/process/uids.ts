import { randomInt } from 'node:crypto'
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ToolError } from '@gantry/contract'
import type { SandboxRoot } from './sandbox-root.ts'

/** Uids for sandboxes: each gets one that no other process on the machine uses. */
export interface Uids {
  next(): number
  /** Releases a uid under which no process runs. */
  release(uid: number): void
  /** The file that claims the block. */
  readonly claim: string
  /** Releases the block; every sandbox must have ended. */
  close(): Promise<void>
}

/** Above the ranges of users, containers (systemd-nspawn ends right below) and dynamic users. */
const first = 0x7000_0000
const blockSize = 0x1_0000
const blocks = 4_096
/** One less than the block, so that 0x7fffffff, which some programs treat as invalid, is never used. */
const usable = blockSize - 1
const mostTries = 64

/** The folder of claims, one empty file `<block>-<owner>` for each block. */
export function claimsFolder(root: string): string {
  return join(root, 'uids')
}

/** The owner in the name of a claim file. */
export function ownerOfClaim(entry: string): string | undefined {
  return /^\d+-(.+)$/.exec(entry)?.[1]
}

/**
 * Claims a block of uids for this process. Two processes that claim the same block concurrently both see the other's
 * claim and both try another. A claim has its owner in its name, so no process removes a claim that was made again.
 */
export async function claimUids(
  { folder, owner }: Pick<SandboxRoot, 'folder' | 'owner'>,
  pick: () => number = () => randomInt(blocks),
): Promise<Uids> {
  const claims = claimsFolder(folder)
  await mkdir(claims, { recursive: true, mode: 0o700 })
  for (let tries = 0; tries < mostTries; tries += 1) {
    const block = pick()
    const claim = join(claims, `${block}-${owner}`)
    await writeFile(claim, '', { flag: 'wx', mode: 0o600 })
    if ((await isOnlyClaim(claims, block)) && !(await isInUse(block))) return usesOf(block, claim)
    await rm(claim)
  }
  throw new ToolError('RUNTIME_UNAVAILABLE', `No block of uids is free; look at the claims in ${claims}.`)
}

async function isOnlyClaim(claims: string, block: number): Promise<boolean> {
  const entries = await readdir(claims)
  return entries.filter((entry) => entry.startsWith(`${block}-`)).length === 1
}

/** Whether a process runs under a uid of the block: an orphan, or one of an owner with another root folder. */
async function isInUse(block: number): Promise<boolean> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const uids = await Promise.all(pids.map(uidsOf))
  return uids.flat().some((uid) => Math.floor((uid - first) / blockSize) === block)
}

async function uidsOf(pid: string): Promise<number[]> {
  const status = await readFile(`/proc/${pid}/status`, 'latin1').catch(() => '')
  return (/^Uid:(.*)$/m.exec(status)?.[1] ?? '').split('\t').filter(Boolean).map(Number)
}

function usesOf(block: number, claim: string): Uids {
  const used = new Set<number>()
  let at = 0
  return {
    next() {
      // Temporary, and no fault of the sandbox: it opens no circuit and makes no dead letter.
      if (used.size >= usable) {
        const message = 'All uids of this process are in use; try again when a sandbox has ended.'
        throw new ToolError('RATE_LIMITED', message, { details: { retryAfterMs: 250 } })
      }
      let uid: number
      do {
        uid = first + block * blockSize + at
        at = (at + 1) % usable
      } while (used.has(uid))
      used.add(uid)
      return uid
    },
    release: (uid) => void used.delete(uid),
    claim,
    close: () => rm(claim, { force: true }),
  }
}
