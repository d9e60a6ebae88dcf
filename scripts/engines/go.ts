import { execFile, spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { cachedEngine } from './cache.ts'
import { installPackages } from './packages.ts'

/** A program of Go's module registry. */
export interface GoProgram {
  /** The name of the engine in the cache. */
  readonly name: string
  /** The import path of its `main` package; its last part is the name of the program. */
  readonly package: string
  readonly version: string
}

/** Building takes a minute or two; the timeout also suits a machine ten times as busy. */
const buildMs = 1_200_000

/** The path of a program that is built once per user; rejects with the compiler's output when the build fails. */
export async function goProgram({ name, package: main, version }: GoProgram): Promise<string> {
  const folder = await cachedEngine(name, version, (draft) => build(`${main}@${version}`, draft))
  return join(folder, main.slice(main.lastIndexOf('/') + 1))
}

async function build(source: string, folder: string): Promise<void> {
  if (!hasGo()) installPackages('golang-go')
  if (!hasGo()) throw new Error(`${source} is built with Go, which is not installed; apt-get install golang-go`)
  const options = { timeout: buildMs, env: { ...process.env, GOBIN: folder } }
  await promisify(execFile)('go', ['install', '-trimpath', source], options).catch((cause: { stderr?: string }) => {
    throw new Error(`go install ${source} failed:\n${(cause.stderr ?? '').slice(-2_000)}`, { cause })
  })
}

/** `go` has no `--version`. */
function hasGo(): boolean {
  return spawnSync('go', ['version'], { stdio: 'ignore' }).status === 0
}
