import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { realpath } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { ToolError } from '@gantry/contract'
import { isObject, isText } from '@gantry/contract/internal/json'
import { programFolders } from '../languages/languages.ts'

/** A command that starts a package client, such as pip. */
export type ClientCommand = readonly [string, ...string[]]

/** The interpreter that packages are for. */
export interface PythonTarget {
  /** As `cpython`. */
  readonly implementation: string
  /** As `3.11`. */
  readonly version: string
  /** As `x86_64`. */
  readonly machine: string
  /** As `glibc`; empty where it is unknown. */
  readonly libc: string
}

/** Prints the facts of an interpreter as JSON, and whether it has pip. */
export const describePython = `
import importlib.util, json, platform, sys
print(json.dumps({
    'implementation': sys.implementation.name, 'version': '%d.%d' % sys.version_info[:2],
    'machine': platform.machine(), 'libc': platform.libc_ver()[0],
    'pip': importlib.util.find_spec('pip') is not None,
}))
`

/** Reads what `describePython` printed; undefined when it is anything else. */
export function readDescription(text: string): (PythonTarget & { readonly hasPip: boolean }) | undefined {
  try {
    const facts: unknown = JSON.parse(text)
    if (!isObject(facts)) return undefined
    const { implementation, version, machine, libc, pip } = facts
    if (!isText(implementation) || !isText(version) || !isText(machine) || !isText(libc)) return undefined
    return { implementation, version, machine, libc, hasPip: pip === true }
  } catch {
    return undefined
  }
}

export function targetText({ implementation, version, machine, libc }: PythonTarget): string {
  return `${implementation} ${version} ${machine} ${libc}`.trim()
}

/** Variables that package clients read. Others, such as keys of Gantry, are not theirs. */
const passedOn =
  /^(?:PATH|HOME|USER|LOGNAME|TMPDIR|LANG|LC_.*|XDG_.*|PIP_.*|npm_config_.*|NODE_EXTRA_CA_CERTS|SSL_CERT_(?:FILE|DIR)|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|NETRC|(?:https?|no|all)_proxy)$/i

interface RunOptions {
  /** An empty folder of our own, because clients also read files of their working folder. */
  readonly folder: string
  readonly signal: AbortSignal
  /** Called with each line of output. */
  readonly onLine?: (line: string) => void
}

/** How a client ended. */
interface ClientEnd {
  readonly code: number | null
  readonly output: string
}

const mostOutput = 262_144

/** Runs a client with the configuration of its user, and kills it and its children when the signal aborts. */
export async function runClient(command: ClientCommand, { folder, signal, onLine }: RunOptions): Promise<ClientEnd> {
  signal.throwIfAborted()
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => passedOn.test(name)))
  const [program, ...args] = command
  const child = spawn(program, args, {
    cwd: folder,
    env: { ...env, LC_ALL: 'C.UTF-8', PIP_ROOT_USER_ACTION: 'ignore', PIP_NO_INPUT: '1' },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  })
  let output = ''
  let line = ''
  const read = (piece: Buffer): void => {
    const text = piece.toString()
    output = (output + text).slice(-mostOutput)
    const lines = (line + text).split('\n')
    line = (lines.pop() ?? '').slice(-mostOutput)
    for (const each of lines) onLine?.(each)
  }
  child.stdout.on('data', read)
  child.stderr.on('data', read)
  const stop = (): void => {
    // Its own process group, so that children of npm end too.
    if (child.pid !== undefined) {
      try {
        process.kill(-child.pid, 'SIGKILL')
      } catch {
        // It has ended already.
      }
    }
  }
  signal.addEventListener('abort', stop, { once: true })
  try {
    const code = await new Promise<number | null>((resolve, reject) => {
      child.once('error', reject)
      child.once('close', resolve)
    })
    signal.throwIfAborted()
    return { code, output }
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

/** Finds a pip that chooses packages for the target, because markers are judged by the interpreter that runs it. */
export async function findPip(target: PythonTarget, options: RunOptions): Promise<ClientCommand> {
  const withPip: string[] = []
  let fitting: string | undefined
  for (const python of await programsNamed('python3', `python${target.version}`)) {
    const end = await runClient([python, '-c', describePython], options).catch(() => undefined)
    options.signal.throwIfAborted()
    const facts = end?.code === 0 ? readDescription(end.output) : undefined
    if (facts === undefined) continue
    if (facts.hasPip) withPip.push(python)
    if (targetText(facts) !== targetText(target)) continue
    fitting ??= python
    if (facts.hasPip) return [python, '-m', 'pip']
  }
  const [other] = withPip
  if (fitting !== undefined && other !== undefined) return [other, '-m', 'pip', '--python', fitting]
  if (fitting !== undefined) {
    const remedy = 'Debian: apt-get install python3-pip.'
    throw unavailable(`There is no pip for ${fitting}, which chooses and unpacks the packages. ${remedy}`)
  }
  const what = `Python ${target.version} (${targetText(target)}), which the sandboxes have`
  throw unavailable(`There is no ${what}, on this host; it is needed to choose packages. Install it with its pip.`)
}

export async function findNpm(): Promise<ClientCommand> {
  const [npm] = await programsNamed('npm')
  if (npm === undefined) throw unavailable('There is no npm on the PATH, which chooses and unpacks the packages.')
  return [npm]
}

/** Programs of the sandboxes' own folders first, then those on the PATH, each file once. */
async function programsNamed(...names: readonly string[]): Promise<readonly string[]> {
  const path = (process.env.PATH ?? '').split(delimiter).filter((folder) => folder.startsWith('/'))
  const all = [...programFolders, ...path].flatMap((folder) => names.map((name) => join(folder, name)))
  const seen = new Set<string>()
  const found: string[] = []
  for (const program of all.filter((each) => existsSync(each))) {
    const real = await realpath(program)
    if (seen.has(real)) continue
    seen.add(real)
    found.push(program)
  }
  return found
}

const unreachable =
  /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|NewConnectionError|ConnectTimeout|ReadTimeout|NameResolution|Max retries exceeded|ProxyError|SSLError/

/** Why a client failed, with what to do. Its output has addresses, and perhaps passwords in them, so only known parts are shown. */
export function clientFailure(client: string, { code, output }: ClientEnd): ToolError {
  if (/DO NOT MATCH THE HASHES|EINTEGRITY/.test(output)) {
    const [, name = 'a package'] = /^\s{4}(\S+==\S+|\S+) from /m.exec(output) ?? []
    return unavailable(
      `The file that ${client} got for ${shown(name)} does not have the hash of the lock file, so nothing was installed. If the package was meant to change, choose anew with --update.`,
    )
  }
  if (unreachable.test(output)) {
    return unavailable(
      `${client} could not reach its index. Check its configuration and the network, and try again.`,
      true,
    )
  }
  const [, wanted] = /No matching distribution found for (.+)/.exec(output) ?? []
  if (wanted !== undefined) {
    const hint = output.includes('(from versions: none)') ? ' Check the name, too: there is no version at all.' : ''
    return unavailable(
      `${client} found no wheel of ${shown(wanted)} for this Python.${hint} Source packages are never built, because that would run their code on this host; choose a version with a wheel, or build the wheel yourself and name its folder in pip's configuration.`,
    )
  }
  const [, absent] = /(?:error 404 .*'|No matching version found for )([^'\s]+@[^'\s]*)/.exec(output) ?? []
  if (absent !== undefined) return unavailable(`${client} found no package ${shown(absent)}.`)
  const [, words = ''] =
    /^(?:ERROR:|npm (?:error|ERR!) (?!code |errno |syscall |A complete log))\s*(.+)/m.exec(output) ?? []
  return unavailable(
    `${client} ended with exit code ${code ?? 'of a signal'}${words === '' ? '' : `: ${shown(words)}`}.`,
  )
}

/** One short line without addresses. */
function shown(text: string): string {
  return text
    .replace(/\S*:\/\/\S+/g, '(address)')
    .replace(/\p{Cc}/gu, ' ')
    .trim()
    .slice(0, 200)
    .replace(/[.:]+$/, '')
}

export function unavailable(message: string, retryable = false): ToolError {
  return new ToolError('RUNTIME_UNAVAILABLE', message, { retryable })
}
