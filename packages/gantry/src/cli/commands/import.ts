import { writeFileSync } from 'node:fs'
import { basename, relative, resolve } from 'node:path'
import { ToolError } from '@gantry/contract'
import type { OpenapiImport } from '@gantry/openapi'
import { type BoundedFile, readBoundedFile } from '@gantry/service/internal/config/bounded-file'
import { mostDocumentBytes, parseOpenapi } from '@gantry/service/internal/config/openapi-document'
import { isToolError } from '@gantry/service/internal/config/problem'
import { importText } from '../import-report.ts'
import type { Command, Io } from '../io.ts'
import type { OptionValues } from '../option-table.ts'
import { printJson } from '../print.ts'
import { usageError } from '../usage.ts'

/** Makes tools from an OpenAPI document, writes them beside the configuration and says what became of each operation. */
export const execute: Command = async ({ operands: [source = ''], options }, io) => {
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

/** The guard advises rules of a configuration, which has no say here; what it found stands before that advice. */
function notFetched({ message }: ToolError): ToolError {
  const [found = ''] = message.split(/\.(?: |$)/)
  const advice = /private or reserved/.test(found)
    ? 'If that is meant, say --private.'
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

/** The title in the letters of a namespace, or the name of the file. */
function nameFor(document: unknown, source: string): string {
  const title = (document as { info?: { title?: unknown } } | null)?.info?.title
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
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') {
      throw usageError('--force', `${file} exists; --force replaces it, --out writes elsewhere.`)
    }
    throw new ToolError('PAYLOAD_INVALID', `${file} cannot be written.`, { cause: error })
  }
}

function besideConfig(file: string, { folder }: Io): string {
  const path = relative(folder, file)
  return path.startsWith('.') ? path : `./${path}`
}
