"""The page's style: light and dark, screen and paper, no file from outside."""

CSS = """
:root{color-scheme:light dark;--bg:#fff;--fg:#1b1f24;--soft:#5b6570;--line:#d9dee3;--card:#f5f7f9;
--before:#9aa5b1;--after:#1f6feb;--good:#1a7f37;--warn:#9a6700;--warnbg:#fff8e1;--code:#eef1f4}
@media(prefers-color-scheme:dark){:root{--bg:#0f1317;--fg:#e4e8ec;--soft:#98a3ae;--line:#2c343c;--card:#181e24;
--before:#68737f;--after:#58a6ff;--good:#56d364;--warn:#e3b341;--warnbg:#2b2410;--code:#1d242b}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:78rem;padding:1.5rem 1.25rem 3rem;background:var(--bg);color:var(--fg);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
h1{font-size:1.6rem;margin:0 0 .25rem}h2{font-size:1.2rem;margin:2.2rem 0 .7rem;padding-top:.7rem;
border-top:1px solid var(--line)}h3{font-size:1rem;margin:1.2rem 0 .4rem}
p{margin:.4rem 0}.soft{color:var(--soft)}
code,pre{font-family:ui-monospace,"SFMono-Regular",Menlo,"DejaVu Sans Mono",monospace;font-size:.9em}
pre{background:var(--code);padding:.7rem .9rem;border-radius:6px;overflow-x:auto;white-space:pre-wrap;
overflow-wrap:anywhere}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(10.5rem,1fr));gap:.7rem;margin:1rem 0}
.card{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.6rem .8rem}
.card b{display:block;font-size:1.35rem;line-height:1.3}.card span{color:var(--soft);font-size:.85rem}
.good{color:var(--good)}.warn{color:var(--warn)}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,23rem),1fr));gap:1.2rem}
figure{margin:0;max-width:38rem}figcaption{font-weight:600;margin-bottom:.2rem}
svg{width:100%;height:auto;display:block}svg text{fill:var(--fg);font-size:11px}svg .axis{fill:var(--soft)}
svg .grid{stroke:var(--line);stroke-width:1}.b{fill:var(--before)}.a{fill:var(--after)}
.lb{fill:none;stroke:var(--before);stroke-width:2}.la{fill:none;stroke:var(--after);stroke-width:2}
.dash{stroke-dasharray:5 4}.key i{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin:0 .35em 0 0}
.key span{margin-right:1.2em}.key .kb{background:var(--before)}.key .ka{background:var(--after)}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;margin:.4rem 0;font-variant-numeric:tabular-nums}
caption{text-align:left;color:var(--soft);padding:.2rem 0}
th,td{text-align:left;padding:.25rem .6rem;border-bottom:1px solid var(--line);vertical-align:top}
th{font-size:.85rem;color:var(--soft);font-weight:600}td{overflow-wrap:anywhere}.n{text-align:right;white-space:nowrap}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1rem;margin:.6rem 0}dt{color:var(--soft)}
dd{margin:0;overflow-wrap:anywhere}
.box{border-left:4px solid var(--warn);background:var(--warnbg);padding:.5rem .9rem;border-radius:0 6px 6px 0}
.box ul{margin:.2rem 0;padding-left:1.2rem}summary{cursor:pointer;font-weight:600;padding:.3rem 0}
@media print{body{max-width:none;padding:0;font-size:11px}h2{break-after:avoid}figure,.card,tr{break-inside:avoid}
.wide{overflow:visible}details::details-content{content-visibility:visible;display:block;height:auto}
:root{--bg:#fff;--fg:#000;--soft:#444;--line:#bbb;--card:#fff;--code:#f3f3f3;--before:#999;--after:#1f6feb}}
"""
