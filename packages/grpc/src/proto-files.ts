import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ToolError } from '@gantry/contract'
import { readParts } from './parts.ts'
import { commentsOfProto } from './proto-comments.ts'

/** Descriptors from files, and what the comments before methods say, by `package.Service/Method`. */
export interface LoadedFiles {
  readonly descriptors: readonly Buffer[]
  readonly comments: ReadonlyMap<string, string>
}

/**
 * Reads `.proto` files with all that they import, and files of any other ending as descriptor sets. The parser of
 * `.proto` text is loaded when it is first needed. Throws CONFIG_INVALID when a file is missing or wrong.
 */
export async function loadFiles(paths: readonly string[], includeDirs: readonly string[]): Promise<LoadedFiles> {
  const sources = paths.filter((path) => path.endsWith('.proto'))
  try {
    const sets = await Promise.all(paths.filter((path) => !path.endsWith('.proto')).map(readSet))
    if (sources.length === 0) return { descriptors: sets.flat(), comments: new Map() }
    const { load } = await import('@grpc/proto-loader')
    const dirs = includeDirs.length === 0 ? {} : { includeDirs: [...includeDirs] }
    const loaded = await load([...sources], { keepCase: true, ...dirs })
    const texts = await Promise.all(sources.map((path) => readSource(path, includeDirs)))
    return {
      descriptors: [...sets.flat(), ...descriptorsOf(loaded)],
      comments: new Map(texts.flatMap(commentsOfProto)),
    }
  } catch (error) {
    throw new ToolError('CONFIG_INVALID', `The files ${paths.join(', ')} could not be read.`, { cause: error })
  }
}

async function readSet(path: string): Promise<readonly Buffer[]> {
  return readParts(await readFile(path), { left: 100_000 }).all(1)
}

/** Every definition that the loader gives holds the descriptors of all files; one is enough. */
function descriptorsOf(loaded: object): readonly Buffer[] {
  for (const definition of Object.values(loaded) as { readonly fileDescriptorProtos?: readonly Buffer[] }[]) {
    if (definition.fileDescriptorProtos !== undefined) return definition.fileDescriptorProtos
  }
  return []
}

/** The text of a file where the loader found it: in a folder of imports, or where its path says. */
async function readSource(path: string, includeDirs: readonly string[]): Promise<string> {
  for (const folder of includeDirs) {
    const text = await readFile(join(folder, path), 'utf8').catch(() => undefined)
    if (text !== undefined) return text
  }
  return readFile(path, 'utf8')
}
