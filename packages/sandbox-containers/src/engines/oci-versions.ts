import { execFile } from 'node:child_process'
import { lstat, realpath } from 'node:fs/promises'
import { dirname, isAbsolute } from 'node:path'
import { promisify } from 'node:util'
import type { ToolError } from '@gantry/contract'
import { unavailable } from './docker-client.ts'

/** An OCI runtime, as it names itself. */
export interface OciProgram {
  /** `runc`, `runsc`, `crun`. */
  readonly name: string
  /** `1.1.5+ds1`, `release-20260901.0`. */
  readonly version: string
  /** What it was built from; Debian names its package here: `1.1.5+ds1-1+deb12u1`. */
  readonly build?: string
}

/** A published fault of an OCI runtime, or a reason of our own not to use a version. */
interface OciFault {
  readonly program: 'runc' | 'runsc'
  readonly name: string
  /** The first version of each branch that has the fix, oldest first; later branches have it. */
  readonly fixed: readonly string[]
  /** Builds of distributions that have the fix under an older version. */
  readonly backports?: readonly string[]
  /** Whether a sandbox could meet the fault under our policy; one that it could not meet is named and not refused. */
  readonly reachable: boolean
}

/**
 * The one table of minimum versions.
 * - CVE-2024-21626: a working directory in `/proc/self/fd` is in the host's file system. Reachable by an image.
 * - The faults of 2025 are races in the preparation of masked paths and of the console. They need a process that changes
 *   the container's files meanwhile. Under our policy no two containers share a mount, there is no console, and nothing
 *   runs before the preparation has ended.
 * - CVE-2026-41579: an image in which `/dev` is a link. Docker covers `/dev` by a layer of its own.
 * - runsc: no published fault crosses its boundary. Versions that the attacks never ran against are refused.
 */
const faults: readonly OciFault[] = [
  {
    program: 'runc',
    name: 'CVE-2024-21626',
    fixed: ['1.1.12'],
    backports: ['1.1.5+ds1-1+deb12u1'],
    reachable: true,
  },
  { program: 'runc', name: 'CVE-2025-31133', fixed: ['1.2.8', '1.3.3', '1.4.0-rc.3'], reachable: false },
  { program: 'runc', name: 'CVE-2025-52565', fixed: ['1.2.8', '1.3.3', '1.4.0-rc.3'], reachable: false },
  { program: 'runc', name: 'CVE-2025-52881', fixed: ['1.2.8', '1.3.3', '1.4.0-rc.3'], reachable: false },
  { program: 'runc', name: 'CVE-2026-41579', fixed: ['1.3.6', '1.4.3', '1.5.0-rc.3'], reachable: false },
  { program: 'runsc', name: 'no run of the attack suite', fixed: ['20221219.0'], reachable: true },
]

/** What the versions of an OCI runtime mean for its sandboxes. */
export type OciJudgement =
  /** `open` are faults without a fix that our policy keeps out of reach. */
  | { readonly state: 'sound'; readonly open: readonly string[] }
  | { readonly state: 'old'; readonly fault: string; readonly least: string }
  /** No version can be read, or there is no minimum for this program. */
  | { readonly state: 'unknown' }

/** Compares a program with the table. The texts are untrusted: what has not the form of a version is unknown. */
export function judgeOci(program: OciProgram): OciJudgement {
  const known = faults.filter((fault) => fault.program === program.name)
  if (known.length === 0 || versionOf(program) === undefined) return { state: 'unknown' }
  const open = known.filter((fault) => !hasFix(program, fault))
  const refused = open.find(({ reachable }) => reachable)
  if (refused !== undefined) return { state: 'old', fault: refused.name, least: refused.fixed.join(', ') }
  return { state: 'sound', open: open.map(({ name }) => name) }
}

/**
 * Checks the OCI runtime of an engine at its start.
 * - `expected` is the only program that gives the isolation of the runtime's kind, so that another one behind its name is
 *   refused instead of running weaker.
 * - Errors: RUNTIME_UNAVAILABLE for another program, and for a version without the fix of a reachable fault.
 */
export function checkOci(
  engine: string,
  program: OciProgram | undefined,
  expected?: string,
): { readonly text: string; readonly isKnown: boolean } {
  if (program === undefined) return { text: `${expected ?? 'OCI runtime'} of unknown version`, isKnown: false }
  if (expected !== undefined && program.name !== expected) throw otherProgram(engine, program, expected)
  const judged = judgeOci(program)
  if (judged.state === 'old') throw tooOld(engine, program, judged.fault, judged.least)
  const text = `${program.name} ${program.build ?? program.version}`
  if (judged.state === 'unknown') return { text: `${text} (no known version)`, isKnown: false }
  if (judged.open.length === 0) return { text, isKnown: true }
  return { text: `${text} (without the fix of ${judged.open.join(', ')}, out of reach of sandboxes)`, isKnown: true }
}

function otherProgram(engine: string, { name, version }: OciProgram, expected: string): ToolError {
  const reason = `The OCI runtime of ${engine} says that it is ${name} ${version}, and ${expected} was asked for.`
  return unavailable(reason, `Let the runtime in the engine's configuration name the program ${expected}.`)
}

function tooOld(engine: string, { name, version, build }: OciProgram, fault: string, least: string): ToolError {
  const reason = `The ${name} of ${engine}, version ${build ?? version}, is too old: ${fault}.`
  return unavailable(reason, `Install ${name} ${least} or newer, or a package of your distribution with that fix.`)
}

type Version = readonly [major: number, minor: number, patch: number, candidate: number]

const released = Number.POSITIVE_INFINITY
const form =
  /^v?(\d{1,9})\.(\d{1,9})\.(\d{1,9})(?:[-~]rc\.?(\d{1,9})|[-~](?:alpha|beta|dev|pre)[\w.]{0,32})?(?:[-+~][\w.+~-]{0,64})?$/
/** `release-20260901.0`, and Debian's `0.0~20221219.0`; with a commit after it for a build between two releases. */
const dated = /^(?:release-|0\.0~)?(20\d{6})\.(\d{1,4})(?:[-+][\w.+~-]{0,64})?$/

function versionOf({ name, version }: Pick<OciProgram, 'name' | 'version'>): Version | undefined {
  if (name === 'runsc') {
    const [, day, number] = dated.exec(version) ?? []
    return day === undefined ? undefined : [Number(day), 0, Number(number), released]
  }
  const found = form.exec(version)
  if (found === null) return undefined
  const [, major, minor, patch, candidate] = found
  const isEarly = /^v?[\d.]+[-~](?:alpha|beta|dev|pre)/.test(version)
  const stage = candidate === undefined ? (isEarly ? 0 : released) : Number(candidate)
  return [Number(major), Number(minor), Number(patch), stage]
}

function hasFix(program: OciProgram, { program: name, fixed, backports = [] }: OciFault): boolean {
  const { build = '' } = program
  if (backports.some((backport) => isRevisionOf(backport, build))) return true
  const own = versionOf(program)
  const firsts = fixed.map((version) => versionOf({ name, version }))
  return (
    own !== undefined && firsts.some((first, index) => first !== undefined && reaches(own, first, index, firsts.length))
  )
}

/** Whether a version is in the branch of a fixed one and not before it, or after the newest of all fixed ones. */
function reaches(own: Version, first: Version, index: number, branches: number): boolean {
  const isSameBranch = own[0] === first[0] && own[1] === first[1]
  return (isSameBranch || index === branches - 1) && compare(own, first) >= 0
}

function compare(one: Version, other: Version): number {
  const at = one.findIndex((part, index) => part !== other[index])
  return at === -1 ? 0 : (one[at] ?? 0) > (other[at] ?? 0) ? 1 : -1
}

const revision = /^(.{1,64}\+deb\d{1,3}u)(\d{1,6})(?:\+b\d{1,6})?$/

/** Whether a package is the same as a backport, or a later revision of it for the same release of Debian. */
function isRevisionOf(backport: string, build: string): boolean {
  const [, stem, number] = revision.exec(backport) ?? []
  const [, ownStem, ownNumber] = revision.exec(build) ?? []
  return stem !== undefined && stem === ownStem && Number(ownNumber) >= Number(number)
}

/** Time for a program to say its version. */
const answerMs = 10_000
const mostBytes = 65_536
const run = promisify(execFile)

/**
 * Asks a program of this machine for its name and version. Undefined where it cannot be asked: the engine that names the
 * path may not be the one of this machine's administrator, so only a program that no other user can replace is started.
 */
export async function askOciProgram(path: string, signal: AbortSignal): Promise<OciProgram | undefined> {
  if (!isAbsolute(path) || !(await isTrusted(path))) return undefined
  try {
    const { stdout } = await run(path, ['--version'], {
      cwd: '/',
      encoding: 'utf8',
      env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' },
      timeout: answerMs,
      killSignal: 'SIGKILL',
      maxBuffer: mostBytes,
      signal,
    })
    return readOciProgram(stdout)
  } catch {
    signal.throwIfAborted()
    return undefined
  }
}

const writableByOthers = 0o022
/** In a folder like /tmp no user can replace a file of another. */
const sticky = 0o1000

async function isTrusted(path: string): Promise<boolean> {
  try {
    const real = await realpath(path)
    if (!(await lstat(real)).isFile()) return false
    const owners = [0, process.getuid?.()]
    for (let at = real; ; at = dirname(at)) {
      const stats = await lstat(at)
      const isHeld = (stats.mode & writableByOthers) === 0 || (stats.isDirectory() && (stats.mode & sticky) !== 0)
      if (!owners.includes(stats.uid) || !isHeld) return false
      if (at === '/') return true
    }
  } catch {
    return false
  }
}

/** Reads what `--version` prints: `runc version 1.1.5+ds1`, then `commit: …`. */
export function readOciProgram(text: string): OciProgram | undefined {
  const [, name, version] = /^([A-Za-z][\w-]{0,31}) version ([\w.+~-]{1,96})$/m.exec(text) ?? []
  if (name === undefined || version === undefined) return undefined
  const [, build] = /^commit: ([\w.+~-]{1,96})$/m.exec(text) ?? []
  return { name, version, ...(build === undefined || !build.startsWith(version) ? {} : { build }) }
}
