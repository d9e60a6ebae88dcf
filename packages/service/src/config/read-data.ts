import type { Json } from '@gantry/contract'
import { copyJson } from '@gantry/core/internal/json/copy'
import { JsonError, type JsonLimits } from '@gantry/core/internal/json/limits'
import { parseJson } from '@gantry/core/internal/json/parse'
import { type BoundedFile, readBoundedFile } from './bounded-file.ts'
import { configError } from './problem.ts'

const mostBytes = { json: 1_048_576, yaml: 262_144 }

/** A JSON or YAML configuration as plain data. */
export async function readDataConfig(file: string): Promise<Json> {
  return parseData(file, readText(file, file.endsWith('.json') ? mostBytes.json : mostBytes.yaml))
}

/** A JSON or YAML file that a configuration names, of at most so many bytes. */
export async function readDataFile(file: string, limit: number): Promise<Json> {
  return parseData(file, readText(file, limit), { bytes: limit, depth: 200, nodes: 10_000_000 })
}

async function parseData(file: string, text: string, limits?: JsonLimits): Promise<Json> {
  try {
    if (file.endsWith('.json')) return parseJson(text, limits)
    const { parseYaml } = await import('./parse-yaml.ts')
    return copyJson(parseYaml(file, text), limits === undefined ? {} : { limits })
  } catch (error) {
    if (!(error instanceof JsonError)) throw error
    const issue = { path: error.path, message: error.message }
    throw configError(file, `The file ${file} is not valid.`, [issue])
  }
}

/** The text of a file that a configuration needs; CONFIG_INVALID when it cannot be had. */
export function readText(file: string, limit: number): string {
  let found: BoundedFile
  try {
    found = readBoundedFile(file, limit)
  } catch (error) {
    throw configError(file, `The file ${file} cannot be read.`, [], error)
  }
  if (found.state === 'read') return found.text.replace(/^\ufeff/, '')
  const why = found.state === 'too-long' ? `longer than ${limit} bytes` : 'not a regular file'
  throw configError(file, `The file ${file} is ${why}.`, [])
}
