import { join } from 'node:path'
import type { LoadedConfig } from '@gantry/service/serve'
import type { Io } from './io.ts'
import type { OptionValues } from './option-table.ts'
import { safeLine } from './terminal.ts'

/** What to try first. The key is named by its file: what is typed or logged stays where others can read it. */
export function serveHints(
  url: string,
  { service, demo }: LoadedConfig,
  { data, config }: OptionValues,
  { environment }: Pick<Io, 'environment'>,
): { readonly [name: string]: string } {
  // Whoever started it with npm has no `gantry` of their own.
  const gantry = environment.npm_command === undefined ? 'gantry' : 'npx gantry'
  const same = [optionText('data', data), optionText('config', config)].join('')
  const curl = `curl -s ${url}/v1`
  const key = `-H "Authorization: Bearer $(cat ${quoted(join(service.data, 'key'))})"`
  if (!demo) return { tools: `${gantry} tools${same}`, calls: `${gantry} calls${same}`, curl: `${curl}/tools ${key}` }
  const call = `-H 'Content-Type: application/json' -d '{"tool":"demo:add","args":{"a":5,"b":3}}'`
  return {
    run: `${gantry} run demo:add '{"a":5,"b":3}'${same}`,
    stream: `${gantry} stream demo:countdown '{"from":3}'${same}`,
    calls: `${gantry} calls${same}`,
    curl: `${curl}/calls ${key} ${call}`,
  }
}

function optionText(name: string, value: string | undefined): string {
  return value === undefined ? '' : ` --${name} ${quoted(value)}`
}

/** A path as a word of a shell. */
function quoted(path: string): string {
  return /^[\w./@:+-]+$/.test(path) ? path : `'${safeLine(path).replaceAll("'", `'\\''`)}'`
}
