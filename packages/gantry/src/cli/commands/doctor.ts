import type { RuntimeInfo } from '@gantry/sandbox'
import type { Command } from '../io.ts'
import { printJson } from '../print.ts'
import { withExecutor } from '../session.ts'
import { safeLine } from '../terminal.ts'

/** Starts and attacks every runtime, and reports which work here and the remedy for the others. */
export const diagnose: Command = ({ options }, io) =>
  withExecutor(options, io, async (gantry) => {
    if (options.json !== true) io.err('Starting each runtime and attacking it …\n')
    const runtimes = await gantry.runtimes.list({ signal: io.signal })
    const machine = { node: process.versions.node, platform: process.platform, arch: process.arch }
    if (options.json === true) await printJson({ runtimes, ...machine }, io)
    else await io.out(`${runtimes.map(linesOf).join('\n')}\n`)
    return 0
  })

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
