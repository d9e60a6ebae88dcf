import type { JsonObject, SandboxedBinding, Tool } from '@gantry/contract'
import { didYouMean } from '@gantry/core/internal/search/near'
import { type DefinedTool, defineTool, type ToolDefinition } from '@gantry/core/internal/tools/tool'
import { readBinding } from '@gantry/sandbox/internal/backends/binding'
import type { FolderFile } from './entry.ts'

/** `name.tool.json` describes the program `name.py`, `name.js`, `name.sh` or `name` beside it. */
export const manifestName = /^(.+)\.tool\.(?:json|ya?ml)$/

/** Reads another file of the folder. */
export type ReadFile = (name: string) => Promise<FolderFile>

const ofTool = [
  ...['namespace', 'name', 'version', 'title', 'description', 'inputSchema', 'outputSchema', 'annotations', 'tags'],
  ...['docs', 'examples', 'deprecated', 'aliases', 'effect', 'output', 'timeoutMs', 'permissions', 'secrets', 'egress'],
  ...['profile', 'runtime', 'concurrencyKey', 'concurrency', 'retry', 'approval', 'placement', 'background'],
] as const satisfies readonly (keyof Tool)[]
const ofProgram = ['program', 'language', 'files', 'env', 'credentials', 'limits', 'result'] as const
const known: readonly string[] = [...ofTool, ...ofProgram]

/** What a manifest says of its program; all of it may be left out. */
interface ProgramFields {
  /** The file beside the manifest that is run. */
  readonly program?: string
  readonly language?: string
  /** Further files of the folder that lie beside the program when it runs. */
  readonly files?: readonly string[]
  readonly env?: { readonly [name: string]: string }
  readonly credentials?: SandboxedBinding['credentials']
  /** Of the sandbox. */
  readonly limits?: SandboxedBinding['limits']
  /** How what it gives is read, as `output` of a sandboxed binding. */
  readonly result?: 'auto' | 'json' | 'text'
}

/** Names of the files that the manifest puts to use, which are no tools by themselves. */
export interface DescribedTool {
  readonly tool: DefinedTool
  readonly uses: readonly string[]
}

/**
 * The tool that a manifest describes. Its program gets the arguments as JSON on its standard input, in a sandbox of its
 * own; what it returns, writes as `{"value": …}` on descriptor 3, or prints, is the output.
 */
export async function describedTool(
  said: unknown,
  base: string,
  siblings: ReadonlySet<string>,
  read: ReadFile,
): Promise<DescribedTool> {
  if (typeof said !== 'object' || said === null || Array.isArray(said)) throw new Error('must be an object')
  const stray = Object.keys(said).find((key) => !known.includes(key))
  if (stray !== undefined) throw new Error(`/${stray} is not known${didYouMean(stray, known)}`)
  const {
    program: named,
    language,
    files = [],
    env,
    credentials,
    limits,
    result,
    ...definition
  } = said as JsonObject & ProgramFields
  const program = named ?? programBeside(base, siblings)
  if (typeof program !== 'string') throw new Error('/program must be the name of a file')
  if (!isNames(files)) throw new Error('/files must be a list of names of files')
  const beside = Object.fromEntries(await Promise.all(files.map(async (name) => [name, asFile(await read(name))])))
  const binding = {
    kind: 'sandboxed',
    ...programOf(await read(program), language, beside),
    ...(env === undefined ? {} : { env }),
    ...(credentials === undefined ? {} : { credentials }),
    ...(limits === undefined ? {} : { limits }),
    ...(result === undefined ? {} : { output: result }),
  }
  const tool = defineTool({ name: base, ...definition, backends: [binding] } as unknown as ToolDefinition<object>)
  readBinding(binding, tool.tool)
  return { tool, uses: [program, ...files] }
}

const extensions = ['.py', '.js', '.mjs', '.ts', '.sh', ''] as const
const languages: { readonly [extension: string]: string } = {
  py: 'python',
  js: 'javascript',
  mjs: 'javascript',
  ts: 'typescript',
}

function programBeside(base: string, siblings: ReadonlySet<string>): string {
  const found = extensions.map((extension) => `${base}${extension}`).find((name) => siblings.has(name))
  if (found === undefined) throw new Error(`names no program, and there is no ${base}.py, .js, .ts, .sh or ${base}`)
  return found
}

/** Code that an interpreter waits for, or else a file that the kernel can start. */
function programOf(
  file: FolderFile,
  language: string | undefined,
  beside: SandboxedBinding['files'] & object,
): Omit<SandboxedBinding, 'kind'> {
  const { name, bytes } = file
  const extension = name.includes('.') ? (name.split('.').at(-1) ?? '') : ''
  const spoken = language ?? (Object.hasOwn(languages, extension) ? languages[extension] : undefined)
  const around = Object.keys(beside).length === 0 ? {} : { files: beside }
  if (spoken !== undefined) return { language: spoken, code: bytes.toString('utf8'), ...around }
  if (extension === 'sh') return { script: bytes.toString('utf8'), ...around }
  if (!file.executable) throw new Error(`${name} is neither in a known language nor executable`)
  // The name has no letter that a shell takes for anything else.
  return { script: `chmod +x './${name}' && exec './${name}'`, files: { ...beside, [name]: asFile(file) } }
}

function asFile({ bytes }: FolderFile): { readonly base64: string } {
  return { base64: bytes.toString('base64') }
}

function isNames(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.length <= 64 && value.every((name) => typeof name === 'string')
}
