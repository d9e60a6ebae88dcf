import { codes, type JsonObject } from '@gantry/contract'
import type { RuntimeExplanation, RuntimeVerdict } from '@gantry/core'
import type { RuntimeInfo } from '@gantry/sandbox'
import { packagesOf, packageWarnings } from '@gantry/service/internal/config/package-problems'
import { usageError } from '../errors.ts'
import type { Command, Io } from '../io.ts'
import { readJson } from '../json-operand.ts'
import { printJson, tableText } from '../print.ts'
import { withExecutor, withService, withSources } from '../session.ts'
import { safeLine } from '../terminal.ts'

/** Starts and attacks every runtime, and reports which work here and the remedy for the others. */
export const diagnose: Command = ({ options }, io) => {
  if (options.explain !== undefined) return explain(options.explain, options, io)
  return withExecutor(options, io, async (gantry, loaded) => {
    const packages = await packagesOf(loaded.options, true)
    for (const warning of packageWarnings(packages)) io.err(`warning: ${safeLine(warning)}\n`)
    if (options.json !== true) io.err('Starting each runtime and attacking it …\n')
    const runtimes = await gantry.runtimes.list({ signal: io.signal })
    const machine = { node: process.versions.node, platform: process.platform, arch: process.arch }
    const built = packages.length === 0 ? {} : { packages }
    if (options.json === true) await printJson({ runtimes, ...machine, ...built }, io)
    else await io.out(`${runtimes.map(linesOf).join('\n')}\n`)
    return 0
  })
}

/** Says where a call would run, and why, without running it. */
async function explain(text: string, options: Parameters<Command>[0]['options'], io: Io): Promise<number> {
  const { tool, args } = await readCall(text, io)
  return withSources(options, io, async (gantry) => {
    const explained = await gantry.explainRuntime(tool, args, { signal: io.signal })
    if (options.json === true) await printJson(explained, io)
    else await io.out(explanationText(explained))
    return explained.chosen === undefined ? codes.RUNTIME_UNAVAILABLE.exit : 0
  })
}

async function readCall(text: string, io: Io): Promise<{ readonly tool: string; readonly args: JsonObject }> {
  const call = await readJson('--explain', text, io)
  const form = 'is a call such as {"tool":"code:run","args":{"language":"python","code":"print(1)"}}'
  if (call === null || typeof call !== 'object' || Array.isArray(call)) {
    throw usageError('--explain', `--explain ${form}.`)
  }
  const { tool, args = {}, ...rest } = call as JsonObject
  const [extra] = Object.keys(rest)
  if (extra !== undefined) throw usageError('--explain', `A call has "tool" and "args", not ${JSON.stringify(extra)}.`)
  if (typeof tool !== 'string') throw usageError('--explain', `--explain has no "tool"; it ${form}.`)
  if (args === null || typeof args !== 'object' || Array.isArray(args)) {
    throw usageError('--explain', 'The "args" of a call are an object.')
  }
  return { tool, args: args as JsonObject }
}

function explanationText({ tool, profile, floor, program, network, chosen, runtimes }: RuntimeExplanation): string {
  const where = chosen === undefined ? 'No runtime would run it' : `It would run in ${chosen}`
  const what = program.language ?? program.kind
  const reach = network === 'none' ? 'no network' : `network to ${network.allow.join(', ')}`
  return [
    safeLine(`${tool}: ${what}, profile ${profile}, at least ${floor}, ${reach}. ${where}.`),
    ...runtimes.flatMap(verdictLines),
    '',
  ].join('\n')
}

const marks: { readonly [Verdict in RuntimeVerdict['verdict']]: string } = { chosen: '✓', spare: '·', refused: '✗' }

function verdictLines({ kind, isolation, verdict, reason, remedy }: RuntimeVerdict): string[] {
  const head = `${marks[verdict]} ${kind.padEnd(12)} ${isolation.padEnd(11)}`
  return [safeLine(`${head} ${reason}`), ...(remedy === undefined ? [] : [safeLine(`${' '.repeat(27)}${remedy}`)])]
}

function linesOf(runtime: RuntimeInfo): string {
  const { kind, isolation } = runtime
  const head = `${kind.padEnd(12)} ${isolation.padEnd(11)}`
  if (!runtime.available) {
    return [
      safeLine(`✗ ${head} not available: ${runtime.reason}`),
      safeLine(`${' '.repeat(27)}${runtime.remedy}`),
    ].join('\n')
  }
  const { version, startMs, languages, limits, attacks } = runtime
  const held = Object.entries(limits).map(([limit, by]) => `${limit} (${by})`)
  return [
    safeLine(`✓ ${head} ${version}; starts in ${startMs?.toFixed(1) ?? '?'} ms`),
    safeLine(`${' '.repeat(27)}languages: ${languages.join(', ')}`),
    safeLine(`${' '.repeat(27)}holds: ${held.join(', ')}`),
    safeLine(`${' '.repeat(27)}${guardOf(isolation, attacks.length)}`),
  ].join('\n')
}

/** Where nothing guards there is nothing to attack, which must not read as if all had been refused. */
function guardOf(isolation: string, attacks: number): string {
  if (isolation !== 'none') return `refused: ${attacks} self-test attacks`
  return 'no isolation: runs only where a profile sets unsafeHost and the call names it'
}

/** Lists the backends and asks each whether it is there. */
export const listBackends: Command = ({ options }, io) =>
  withExecutor(options, io, async (gantry) => {
    const items = await gantry.backends.health({ signal: io.signal })
    if (options.json === true) await printJson({ items }, io)
    else {
      const width = Math.max(...items.map(({ key }) => key.length))
      const line = ({ key, status, message }: (typeof items)[number]): string =>
        safeLine(`${key.padEnd(width)}  ${status}${message === undefined ? '' : `  ${message}`}`)
      await io.out(`${items.map(line).join('\n')}\n`)
    }
    return 0
  })

/** Lists the processes of a service, by their last heartbeat. */
export const listWorkers: Command = ({ options }, io) =>
  withService(options, io, async (client) => {
    const items = await client.workers({ signal: io.signal })
    if (options.json === true) await printJson({ items }, io)
    else {
      const isEqual = items.every(({ differs }) => differs === undefined)
      const rows = items.map((one) => [
        one.worker,
        one.state,
        one.roles.join(','),
        `${one.running}/${one.slots}`,
        one.startedAt,
        one.seenAt,
        ...(isEqual ? [] : [one.differs?.join(',')]),
      ])
      const head = ['worker', 'state', 'roles', 'running', 'started', 'seen', ...(isEqual ? [] : ['differs'])]
      await io.out(tableText(head, rows, io))
    }
    return 0
  })
