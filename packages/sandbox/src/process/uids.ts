import { randomInt } from 'node:crypto'
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ToolError } from '@gantry/contract'
import type { SandboxRoot } from './sandbox-root.ts'

/** Uids for sandboxes: each gets one that no process on the machine uses. */
export interface Uids {
  next(): number
  /** Says that nothing runs under a uid any more. */
  release(uid: number): void
  /** The file that claims the block. */
  readonly claim: string
  /** Gives the block back; every sandbox must be gone. */
  close(): Promise<void>
}

/** Above what is given to people, containers (systemd-nspawn ends right below) and dynamic users. */
const first = 0x7000_0000
const blockSize = 0x1_0000
const blocks = 4_096
/** One short of the block, so that 0x7fffffff, which some programs take for none, is never given. */
const usable = blockSize - 1
const mostTries = 64

/** The folder where blocks are claimed, one empty file `<block>-<owner>` each. */
export function claimsFolder(root: string): string {
  return join(root, 'uids')
}

/** Whose claim an entry of the claims folder is. */
export function ownerOfClaim(entry: string): string | undefined {
  return /^\d+-(.+)$/.exec(entry)?.[1]
}

/**
 * Claims a block of uids for this process. Two who claim the same block at once both see the other's claim and both try
 * another; a claim has its owner in its name, so that no process removes one that was made again meanwhile.
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

/** Whether a process runs under a uid of the block: one that lost its owner, or one of a process with another root folder. */
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
      if (used.size >= usable) throw new ToolError('SANDBOX_INIT_FAILED', 'All uids of this process are in use.')
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
