import { globSync, mkdirSync, rmSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { dirname, join } from 'node:path'
import { codes } from '@gantry/contract'
import { apiPages } from './docs/api-pages.ts'
import { commandFaults } from './docs/command-lines.ts'
import { errorsPage } from './docs/errors-page.ts'
import { generated } from './docs/generated.ts'
import { brokenLinks } from './docs/links.ts'
import { type Fence, readPage } from './docs/page.ts'
import { cliPage } from './docs/reference/cli.ts'
import { configurationPages } from './docs/reference/configuration.ts'
import { diagramFaults } from './docs/reference/diagram-faults.ts'
import { httpApiPage } from './docs/reference/http-api.ts'
import { metricsPage } from './docs/reference/metrics.ts'
import { shellFault, showsOutput } from './docs/sh-fences.ts'
import { makeSite } from './docs/site/site.ts'
import { tokensPage } from './docs/tokens-page.ts'
import { runFault, typeFaults } from './docs/ts-fences.ts'

/**
 * Checks the documentation: generated pages, links, the site, and every `ts` fence and `gantry` command, by running
 * them. `--write` writes the generated pages first, `--reference` leaves out what is run.
 */
const root = dirname(import.meta.dirname)
const folder = join(root, 'node_modules', '.cache', `docs-${process.pid}`)
const patterns = ['*.md', 'docs/**/*.md', 'packages/*/*.md', 'examples/**/*.md', '.changeset/*.md']

const write = process.argv.includes('--write')
const isReferenceOnly = process.argv.includes('--reference')
const configuration = configurationPages(root)
const generatedPages = new Map([
  ['docs/errors.md', errorsPage(codes)],
  ['docs/reference/cli.md', cliPage()],
  ['docs/reference/http-api.md', httpApiPage()],
  ['docs/reference/metrics.md', metricsPage()],
  ...configuration.pages,
  ['docs/tokens.md', await tokensPage()],
  ...apiPages(root),
])
const command = 'npm run docs -- --write --reference'
const faults = [
  ...configuration.faults,
  ...[...generatedPages].flatMap(([file, text]) => generated(root, file, text, write, command)),
]
const pages = globSync(patterns, { cwd: root })
  .sort()
  .map((file) => readPage(root, file))
faults.push(...brokenLinks(root, pages), ...commandFaults(pages))

mkdirSync(folder, { recursive: true })
faults.push(...makeSite(root).faults, ...diagramFaults(pages))
const fences = isReferenceOnly ? [] : pages.flatMap((page) => page.fences)
const typed = fences.filter(({ language }) => language === 'ts')
const run = typed.filter(({ marks }) => !marks.includes('no-run'))
const shell = fences.filter(showsOutput)
if (typed.length > 0) faults.push(...(await typeFaults(root, folder, typed)))
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

/** More at a time than there are processors, because programs that keep connections open wait for seconds. */
async function inTurn(list: readonly Fence[], check: (fence: Fence) => Promise<string | undefined>): Promise<string[]> {
  const found: string[] = []
  const left = [...list]
  const work = async (): Promise<void> => {
    for (let fence = left.shift(); fence !== undefined; fence = left.shift()) {
      const fault = await check(fence)
      if (fault !== undefined) found.push(fault)
    }
  }
  await Promise.all(Array.from({ length: 2 * availableParallelism() }, work))
  return found
}
