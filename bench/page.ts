import { cpus, loadavg, totalmem } from 'node:os'
import { type Section, sectionText } from './report.ts'

/** docs/benchmarks.md: where and how it was measured, then every section. */
export function pageText(sections: readonly Section[]): string {
  const processors = cpus()
  const machine = `${processors.length} × ${processors[0]?.model.trim() ?? 'unknown processor'}`
  const facts = [
    `- Machine: ${machine}, ${Math.round(totalmem() / 2 ** 30)} GB, ${process.platform} ${process.arch}`,
    `- Load average at the end: ${loadavg()
      .map((load) => load.toFixed(1))
      .join(
        ', ',
      )}. The run itself keeps about one processor busy; the rest is others, who slow what is measured. The same code has given medians twice as high from one run to the next here, whatever the load average said; a target that is met by less than that is not met for certain.`,
    `- Node ${process.version}, V8 ${process.versions.v8}`,
    `- Date: ${new Date().toISOString().slice(0, 10)}`,
    '- Command: `npm run bench`; one part alone: `npm run bench -- local-call`, with `--write` into this page',
  ]
  return `# Benchmarks

Written by \`npm run bench\`; do not edit. No test asserts a timing: these are figures of one run on one machine, with the
peers measured beside Gantry in the same run, so that the ratios hold better than the times.

${facts.join('\n')}

${sections.map(sectionText).join('\n\n')}
`
}

/** The page with these sections in place of those of the same titles; a section that the page does not have is its last. */
export function withSections(page: string, sections: readonly Section[]): string {
  const parts = page.trimEnd().split(/\n\n(?=## )/)
  for (const section of sections) {
    const at = parts.findIndex((part) => part.split('\n')[0] === `## ${section.title}`)
    parts.splice(at === -1 ? parts.length : at, at === -1 ? 0 : 1, sectionText(section))
  }
  return `${parts.join('\n\n')}\n`
}
