import { existsSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { codes } from '@gantry/contract'
import { errorsPage } from './docs/errors-page.ts'
import { brokenLinks } from './docs/links.ts'
import { type Fence, readPage } from './docs/page.ts'
import { shellFault, showsOutput } from './docs/sh-fences.ts'
import { tokensPage } from './docs/tokens-page.ts'
import { runFault, typeFaults } from './docs/ts-fences.ts'

/**
 * Checks the documentation: generated pages, links, and every `ts` fence and `gantry` command, which are really run.
 * `--write` writes the generated pages first.
 */
const root = dirname(import.meta.dirname)
const folder = join(root, 'node_modules', '.cache', `docs-${process.pid}`)
const patterns = ['*.md', 'docs/**/*.md', 'packages/*/*.md', 'examples/**/*.md', '.changeset/*.md']

const faults = generated('docs/errors.md', errorsPage(codes), process.argv.includes('--write'))
faults.push(...generated('docs/tokens.md', await tokensPage(), process.argv.includes('--write')))
const pages = globSync(patterns, { cwd: root })
  .sort()
  .map((file) => readPage(root, file))
faults.push(...brokenLinks(root, pages))

mkdirSync(folder, { recursive: true })
const fences = pages.flatMap((page) => page.fences)
const typed = fences.filter(({ language }) => language === 'ts')
const run = typed.filter(({ marks }) => !marks.includes('no-run'))
const shell = fences.filter(showsOutput)
faults.push(...(await typeFaults(root, folder, typed)))
faults.push(...(await inTurn(run, (fence) => runFault(folder, fence))))
faults.push(...(await inTurn(shell, (fence) => shellFault(root, folder, fence))))

rmSync(folder, { recursive: true, force: true })

for (const fault of faults) console.error(fault)
const links = pages.reduce((sum, page) => sum + page.links.length, 0)
console.log(
  `${pages.length} pages, ${links} links, ${typed.length} programs (${run.length} run), ${shell.length} commands: ` +
    (faults.length === 0 ? 'all right.' : `${faults.length} wrong.`),
)
process.exitCode = faults.length === 0 ? 0 : 1

/** Two at a time, so that a small machine keeps up. */
async function inTurn(list: readonly Fence[], check: (fence: Fence) => Promise<string | undefined>): Promise<string[]> {
  const found: string[] = []
  const left = [...list]
  const work = async (): Promise<void> => {
    for (let fence = left.shift(); fence !== undefined; fence = left.shift()) {
      const fault = await check(fence)
      if (fault !== undefined) found.push(fault)
    }
  }
  await Promise.all([work(), work()])
  return found
}

/** Writes a generated page, or says that it is not what it should be. */
function generated(file: string, text: string, write: boolean): string[] {
  const path = join(root, file)
  if (write) writeFileSync(path, text)
  if (existsSync(path) && readFileSync(path, 'utf8') === text) return []
  return [`${file} is out of date; run npm run docs -- --write`]
}
