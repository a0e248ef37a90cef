const svg = document.querySelector('.drawing svg');
const all = svg.viewBox.baseVal, whole = [all.x, all.y, all.width, all.height];
const show = (x, y, w, h) => svg.setAttribute('viewBox', `${x} ${y} ${w} ${h}`);
// The initial view shows the parameters at a readable size.
const room = svg.getBoundingClientRect();
show((whole[2] - room.width) / 2, 0, room.width, room.height);
svg.addEventListener('wheel', event => {
  event.preventDefault();
  const box = svg.getBoundingClientRect(), v = svg.viewBox.baseVal, by = event.deltaY > 0 ? 1.15 : 1 / 1.15;
  const fx = (event.clientX - box.x) / box.width, fy = (event.clientY - box.y) / box.height;
  show(v.x + v.width * fx * (1 - by), v.y + v.height * fy * (1 - by), v.width * by, v.height * by);
}, { passive: false });
let held = null;
svg.addEventListener('pointerdown', event => { held = [event.clientX, event.clientY]; svg.setPointerCapture(event.pointerId); });
svg.addEventListener('pointerup', () => { held = null; });
svg.addEventListener('pointermove', event => {
  if (!held) return;
  const box = svg.getBoundingClientRect(), v = svg.viewBox.baseVal;
  show(v.x - (event.clientX - held[0]) * v.width / box.width, v.y - (event.clientY - held[1]) * v.height / box.height, v.width, v.height);
  held = [event.clientX, event.clientY];
});
svg.addEventListener('dblclick', () => show(...whole));
