import type { Json } from '@gantry/contract'
import { copyJson, JsonError, parseJson } from '@gantry/core'
import { type BoundedFile, readBoundedFile } from './bounded-file.ts'
import { configError } from './problem.ts'

const mostBytes = { json: 1_048_576, yaml: 262_144 }

/** A JSON or YAML configuration as plain data. */
export async function readDataConfig(file: string): Promise<Json> {
  const kind = file.endsWith('.json') ? 'json' : 'yaml'
  const text = readText(file, mostBytes[kind])
  try {
    if (kind === 'json') return parseJson(text)
    const { parseYaml } = await import('./parse-yaml.ts')
    return copyJson(parseYaml(file, text))
  } catch (error) {
    if (!(error instanceof JsonError)) throw error
    const issue = { path: error.path, message: error.message }
    throw configError(file, `The configuration ${file} is not valid.`, [issue])
  }
}

function readText(file: string, limit: number): string {
  let found: BoundedFile
  try {
    found = readBoundedFile(file, limit)
  } catch (error) {
    throw configError(file, `The configuration ${file} cannot be read.`, [], error)
  }
  if (found.state === 'read') return found.text.replace(/^\ufeff/, '')
  const why = found.state === 'too-long' ? `longer than ${limit} bytes` : 'not a regular file'
  throw configError(file, `The configuration ${file} is ${why}.`, [])
}
