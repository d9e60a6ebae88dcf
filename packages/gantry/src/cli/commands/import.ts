import { writeFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { basename, relative, resolve } from 'node:path'
import { ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { kindOf } from '@gantry/core/internal/egress/private-addresses'
import { codeOf } from '@gantry/core/internal/files/private-file'
import type { OpenapiImport } from '@gantry/openapi'
import { type BoundedFile, readBoundedFile } from '@gantry/service/internal/config/bounded-file'
import { mostDocumentBytes, parseOpenapi } from '@gantry/service/internal/config/openapi-document'
import { isToolError } from '@gantry/service/internal/config/problem'
import { usageError } from '../errors.ts'
import type { Command, Io } from '../io.ts'
import type { OptionValues } from '../option-table.ts'
import { printJson } from '../print.ts'
import { safeLine } from '../terminal.ts'

/** Makes tools from an OpenAPI document, writes them beside the configuration and reports on each operation. */
export const importOpenapiTools: Command = async ({ operands: [source = ''], options }, io) => {
  const isUrl = /^https?:\/\//i.test(source)
  const text = isUrl ? await download(source, options, io) : readFile(source, io)
  const document = await parseOpenapi(source, text)
  const { importOpenapi } = await import('@gantry/openapi')
  const { 'base-url': baseUrl, tag: tags, operation: operations, origin: origins } = options
  const made = importOpenapi(document, {
    name: options.name ?? nameFor(document, source),
    ...(isUrl ? { location: source } : {}),
    ...(baseUrl === undefined ? {} : { baseUrl }),
    ...(origins === undefined ? {} : { origins }),
    ...(tags === undefined ? {} : { tags }),
    ...(operations === undefined ? {} : { operations }),
  })
  if (made.tools.length === 0) throw nothing(made)
  const file = resolve(io.folder, options.out ?? `${made.name}.tools.json`)
  write(file, made, options.force === true)
  const { name, baseUrl: base, report } = made
  if (options.json === true) await printJson({ file, name, baseUrl: base, report }, io)
  else await io.out(importText(made, besideConfig(file, io)))
  return 0
}

/** Naming the URL is the user's own word for its host, and for no other; where it is private, they must say so too. */
async function download(source: string, options: OptionValues, { signal }: Io): Promise<string> {
  const url = URL.parse(source)
  if (url === null || url.username !== '' || url.password !== '') {
    throw usageError('source', 'The URL of the document cannot be read, or holds credentials.')
  }
  const { createEgress } = await import('@gantry/core')
  const rule = { origin: url.origin, methods: ['GET'], private: options.private === true }
  const egress = createEgress({ allow: [rule], maxResponseBytes: mostDocumentBytes })
  try {
    const response = await egress.request({ owner: 'import:openapi', url, signal, redirects: 3 })
    if (response.status === 200) return await response.text()
    response.cancel()
    throw new ToolError('BACKEND_FAILED', `${url.host} answered with the status ${response.status}.`, {
      effect: 'none',
    })
  } catch (error) {
    throw isToolError(error) && error.code === 'EGRESS_DENIED' ? notFetched(error) : error
  } finally {
    await egress.close()
  }
}

/** The egress guard advises rules of a configuration, which do not apply here; keeps what it found, without that advice. */
function notFetched({ message }: ToolError): ToolError {
  const [found = ''] = message.split(/\.(?: |$)/)
  const advice = /private or reserved/.test(found)
    ? 'If that is intended, add --private.'
    : 'Only the host that the URL names is asked; fetch the document by other means and import the file.'
  return new ToolError('EGRESS_DENIED', `The document was not fetched: ${found}. ${advice}`, { stage: 'admit' })
}

function readFile(source: string, io: Io): string {
  let found: BoundedFile
  try {
    found = readBoundedFile(resolve(io.folder, source), mostDocumentBytes)
  } catch (error) {
    throw new ToolError('PAYLOAD_INVALID', `The document ${source} cannot be read.`, { cause: error })
  }
  if (found.state === 'read') return found.text
  const why = found.state === 'too-long' ? `longer than ${mostDocumentBytes} bytes` : 'not a regular file'
  throw new ToolError('PAYLOAD_INVALID', `The document ${source} is ${why}.`)
}

/** The title in the characters of a namespace, or the name of the file. */
function nameFor(document: unknown, source: string): string {
  const info = isObject(document) ? document.info : undefined
  const title = isObject(info) ? info.title : undefined
  const words = [title, basename(source).replace(/\.\w+$/, '')].map((word) =>
    String(word ?? '')
      .toLowerCase()
      .replaceAll(/[^a-z0-9]+/g, '-')
      .replaceAll(/^-+|-+$/g, '')
      .slice(0, 64),
  )
  return words.find((word) => word !== '') ?? 'api'
}

function nothing({ report }: OpenapiImport): ToolError {
  const issues = report.leftOut.map(({ operation, reason }) => ({ path: operation, message: reason }))
  const why = report.notChosen > 0 ? ` ${report.notChosen} operations were not chosen by --tag or --operation.` : ''
  return usageError('source', `No operation of the document can be a tool.${why}`, { issues })
}

function write(file: string, { backend, tools }: OpenapiImport, force: boolean): void {
  try {
    writeFileSync(file, `${JSON.stringify({ backend, tools }, undefined, 2)}\n`, { flag: force ? 'w' : 'wx' })
  } catch (error) {
    if (codeOf(error) === 'EEXIST') {
      throw usageError('--force', `${file} exists; --force replaces it, --out writes elsewhere.`)
    }
    throw new ToolError('PAYLOAD_INVALID', `${file} cannot be written.`, { cause: error })
  }
}

function besideConfig(file: string, { folder }: Io): string {
  const path = relative(folder, file)
  return path.startsWith('.') ? path : `./${path}`
}

/** As many as a person reads; --json has them all. */
const most = 20

/** The report of an import: tools made, operations left out, and steps that remain. */
export function importText(made: OpenapiImport, file: string): string {
  const { name, baseUrl, report } = made
  const { callbacks, webhooks, links } = report.notImported
  const others = Object.entries({ callbacks, webhooks, links }).filter(([, count]) => count > 0)
  const lines = [
    `Imported ${report.imported} tools of ${name} at ${baseUrl}.`,
    `Written to ${file}.`,
    ...(report.notChosen > 0 ? [`Not chosen: ${report.notChosen} operations.`] : []),
    ...(others.length > 0 ? [`Not imported: ${others.map(([what, count]) => `${count} ${what}`).join(', ')}.`] : []),
    ...section(
      'Left out',
      report.leftOut.map(({ operation, reason }) => `${operation}: ${reason}`),
    ),
    ...section('Warnings', grouped(report.warnings)),
    ...section(
      'Secrets to set',
      report.secrets.map((secret) => `${secret.name}: ${secret.what}`),
    ),
    '',
    'Add to the configuration:',
    ...configLines(made, file),
    ...(isPrivate(baseUrl) ? ['', privateNote] : []),
  ]
  return `${lines.map(safeLine).join('\n')}\n`
}

const privateNote =
  'The address is a private one: calls are refused until the backend says "private": true in the configuration.'

/** Whether the host is an address that the egress guard refuses unless a backend or rule says that it is private. */
function isPrivate(baseUrl: string): boolean {
  const host = URL.parse(baseUrl)?.hostname.replace(/^\[(.*)\]$/, '$1') ?? ''
  return host === 'localhost' || (isIP(host) > 0 && kindOf(host) === 'special')
}

/** Warnings that say the same of many places are one line, so that they do not bury what is said once. */
function grouped(warnings: OpenapiImport['report']['warnings']): readonly string[] {
  const groups = new Map<string, { readonly first: string; readonly message: string; count: number }>()
  for (const { operation, path, message } of warnings) {
    // Names and values in quotes, numbers and what follows a colon differ from place to place.
    const kind = message.replaceAll(/"[^"]*"|\d+/g, '…').split(':', 1)[0] ?? ''
    const known = groups.get(kind)
    if (known === undefined) groups.set(kind, { first: operation ?? path, message, count: 1 })
    else known.count += 1
  }
  return [...groups.values()]
    .sort((a, b) => a.count - b.count)
    .map(({ first, message, count }) => {
      const more = count > 1 ? ` (and ${count - 1} more like it)` : ''
      return `${first}: ${message}${more}`
    })
}

function section(title: string, rows: readonly string[]): readonly string[] {
  if (rows.length === 0) return []
  const left = rows.length - most
  const shown = rows.slice(0, most).map((row) => `  ${row}`)
  return ['', `${title} (${rows.length}):`, ...shown, ...(left > 0 ? [`  and ${left} more; --json has them all`] : [])]
}

/** In YAML, of which JSON is a part, so that each line may be copied into either. */
function configLines({ name, report }: OpenapiImport, file: string): readonly string[] {
  const backend = JSON.stringify({ kind: 'http', name, tools: file })
  const secrets = report.secrets.map((secret) => {
    const env = secret.name.toUpperCase().replaceAll(/[^A-Z0-9]+/g, '_')
    return `  ${JSON.stringify(secret.name)}: ${JSON.stringify({ env })}`
  })
  return [
    '  backends:',
    `    - ${backend}`,
    ...(secrets.length === 0 ? [] : ['  secrets:', ...secrets.map((line) => `  ${line}`)]),
  ]
}
