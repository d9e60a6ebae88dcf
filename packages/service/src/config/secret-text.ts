import { readFile } from 'node:fs/promises'
import { ToolError } from '@gantry/contract'

const prefix = 'secret:'

/** A text of the configuration that may name a secret instead of holding it; `use` says what it is for. */
export async function resolveText(text: string, secrets: unknown, use: string): Promise<string> {
  return text.startsWith(prefix) ? secretText(text.slice(prefix.length), secrets, use) : text
}

/** The value of a secret that the service itself needs; SECRET_UNAVAILABLE when there is none. */
export async function secretText(name: string, secrets: unknown, use: string): Promise<string> {
  const source = secrets as { get?(name: string, request: object): Promise<string | undefined> } | undefined
  const signal = AbortSignal.timeout(5_000)
  const value = typeof source?.get === 'function' ? await source.get(name, { signal }) : undefined
  if (value !== undefined) return value
  throw new ToolError('SECRET_UNAVAILABLE', `The secret ${name}, which ${use}, cannot be had.`)
}

/** What a setting names to trust others and to show who we are; paths of files in PEM. */
interface TlsFiles {
  readonly caFile?: string
  readonly certFile?: string
  readonly keyFile?: string
}

/** What the files hold. Rejects with CONFIG_INVALID, naming the key under `path`, for one that cannot be read. */
export async function readTlsFiles(
  { caFile, certFile, keyFile }: TlsFiles,
  path: string,
): Promise<{ readonly ca?: string; readonly cert?: string; readonly key?: string }> {
  const read = async (name: string, file: string | undefined): Promise<string | undefined> =>
    file === undefined ? undefined : readPem(file, `${path}/${name}File`)
  const held = { ca: await read('ca', caFile), cert: await read('cert', certFile), key: await read('key', keyFile) }
  return Object.fromEntries(Object.entries(held).filter(([, text]) => text !== undefined))
}

async function readPem(file: string, path: string): Promise<string> {
  return readFile(file, 'utf8').catch((cause: unknown) => {
    throw new ToolError('CONFIG_INVALID', `The file ${file} of ${path} cannot be read.`, {
      cause,
      details: { issues: [{ path, message: 'cannot be read' }] },
    })
  })
}
