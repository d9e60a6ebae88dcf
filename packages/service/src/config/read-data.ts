import { readFile } from 'node:fs/promises'
import { type Json, ToolError } from '@gantry/contract'
import { copyJson, JsonError, parseJson } from '@gantry/core'
import { configError } from './problem.ts'

const mostBytes = 1_048_576

/** A JSON or YAML configuration as plain data. */
export async function readDataConfig(file: string): Promise<Json> {
  const text = await readText(file)
  try {
    return file.endsWith('.json') ? parseJson(text) : copyJson(await parseYaml(file, text))
  } catch (error) {
    if (!(error instanceof JsonError)) throw error
    const issue = { path: error.path, message: error.message }
    throw configError(file, `The configuration ${file} is not valid.`, [issue])
  }
}

async function readText(file: string): Promise<string> {
  try {
    const text = await readFile(file, 'utf8')
    if (text.length <= mostBytes) return text.replace(/^\ufeff/, '')
  } catch (error) {
    throw configError(file, `The configuration ${file} cannot be read.`, [], error)
  }
  throw configError(file, `The configuration ${file} is longer than ${mostBytes} bytes.`, [])
}

/** YAML without surprises: the core schema, no repeated keys, no merge keys, few aliases. */
async function parseYaml(file: string, text: string): Promise<unknown> {
  const { parseDocument } = await import('yaml')
  const document = parseDocument(text, { schema: 'core', uniqueKeys: true, merge: false, stringKeys: true })
  const issues = [...document.errors, ...document.warnings].map(({ linePos, message }) => {
    const [line = message] = message.split('\n', 1)
    return { path: '', message: linePos === undefined ? line : `line ${linePos[0].line}: ${line}` }
  })
  if (issues.length > 0) throw configError(file, `The configuration ${file} is not valid YAML.`, issues)
  try {
    return document.toJS({ maxAliasCount: 50 })
  } catch (error) {
    if (ToolError.is(error)) throw error
    throw configError(file, `The configuration ${file} cannot be read.`, [], error)
  }
}
